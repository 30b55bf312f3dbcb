/* SPDX-License-Identifier: Apache-2.0 */
/* The driver library's ioctl() goes through ours, and copy engines take short turns. */
#include <sys/ioctl.h>

#include "device/cuda_tsg.h"
#include "device_test.h"

#define RM_ALLOC  _IOC(_IOC_READ | _IOC_WRITE, 'F', 0x2b, 48)
#define TSG_CLASS 0xa06c
#define COPY_2    11

Test(device_tsg, other_requests_are_as_ever)
{
	uint32_t params[8] = {[3] = COPY_2}, alloc[12] = {[3] = TSG_CLASS};
	int fd[2], n = 0;

	cr_assert_eq(pipe(fd), 0);
	cr_assert_eq(write(fd[1], "four", 4), 4);
	cr_assert_eq(ioctl(fd[0], FIONREAD, &n), 0);
	cr_assert_eq(n, 4);
	memcpy(&alloc[4], &(void *){params}, sizeof(void *));
	cr_assert_eq(ioctl(fd[0], RM_ALLOC, alloc), -1);
	cr_assert_eq(errno, ENOTTY);
	cr_assert_eq(ioctl(fd[0], RM_ALLOC, NULL), -1);
	cr_assert_eq(ioctl(-1, FIONREAD, &n), -1);
	cr_assert_eq(errno, EBADF);
	cr_assert_eq(cuda_tsg_slices(), 0);
	close(fd[0]);
	close(fd[1]);
}

DEVICE_TEST(device_tsg, copy_engines_take_short_turns)
{
	cr_assert_eq(cuda_tsg_slices() > 0, !f->soft);
}
