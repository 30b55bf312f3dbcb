/* SPDX-License-Identifier: Apache-2.0 */
/* Where things of a VM are, and who reaches them. */
#ifndef WEFT_LIBVIRT_PLACE_H
#define WEFT_LIBVIRT_PLACE_H

/* Root's weftd is there; it makes the sockets of its tenants there, too. */
#define PLACE_RUN "/run/weft"
/* libvirt's <shmem> is a file there. */
#define PLACE_SHM "/dev/shm"
/* QEMU's user is in it wherever KVM is used. */
#define PLACE_QEMU_GROUP "kvm"

#endif
