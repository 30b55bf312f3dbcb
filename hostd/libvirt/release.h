/* SPDX-License-Identifier: Apache-2.0 */
/* Clearing away what was made ready for a VM that has ended. */
#ifndef WEFT_LIBVIRT_RELEASE_H
#define WEFT_LIBVIRT_RELEASE_H

/* Removes all that the note of a domain's UUID has, whatever its XML says by now; nothing
 * where there is no note. Returns 0, or -errno and a sentence, the caller's: weftd could
 * not be told, which the note then says. */
int release(const char *uuid, char **ret_why);

#endif
