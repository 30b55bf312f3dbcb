/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver writes what kernels print to the standard output of this process, at its
 * synchronisation points. A worker has no other use for its stdout, so it becomes a
 * memory file, which unlike a pipe can never block the driver, and is read after each
 * call that synchronises. (What the driver writes to stderr - the text of assertions -
 * stays in the worker's log.)
 *
 * #syscalls memfd_create dup3 dup2 pread64 ftruncate fstat
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/cuda/output.h"
#include "device/image.h"
#include "ptx/fatbin.h"

void cuda_output_open(struct device *dev)
{
	struct cuda_output *o = &dev->output;

	*o = (struct cuda_output){.file = -1, .saved = -1};
	pthread_mutex_init(&o->lock, NULL);
	if (!dev->cfg.output)
		return;
	fflush(stdout);
	o->saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	o->file = memfd_create("weft-stdout", MFD_CLOEXEC);
	if (o->file < 0)
		return;
	/* Appending: the file is cut to nothing when all of it has been read. */
	fcntl(o->file, F_SETFL, O_APPEND);
	dup2(o->file, STDOUT_FILENO);
}

void cuda_output_close(struct device *dev)
{
	struct cuda_output *o = &dev->output;

	if (o->file >= 0) {
		cuda_output_flush(dev);
		if (o->saved >= 0)
			dup2(o->saved, STDOUT_FILENO);
		close(o->file);
	}
	if (o->saved >= 0)
		close(o->saved);
	pthread_mutex_destroy(&o->lock);
}

bool cuda_image_prints(const struct device *dev, const void *image, size_t size)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	struct image_part part;
	size_t pos = 0;

	/* Unpacked code is this worker's memory, which nobody is charged for. */
	scoped_lock(&one);
	while (image_next(image, size, &pos, &part) == 1) {
		if (fatbin_may_name(part.data, part.size, dev->sm, "vprintf"))
			return true;
	}
	return false;
}

void cuda_output_flush(struct device *dev)
{
	struct cuda_output *o = &dev->output;
	char buf[4096];
	ssize_t n;

	if (o->file < 0)
		return;
	scoped_lock(&o->lock);
	fflush(stdout); /* the driver may print through stdio */
	while ((n = pread(o->file, buf, sizeof(buf), (off_t)o->seen)) > 0) {
		dev->cfg.output(dev->cfg.output_arg, buf, (size_t)n);
		o->seen += (uint64_t)n;
	}
	if (o->seen && ftruncate(o->file, 0) == 0)
		o->seen = 0;
}
