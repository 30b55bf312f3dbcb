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

/* A driver that makes what it is asked to, and remembers who was given a slice. */
static struct {
	int n, refuse;
	uint32_t client, object, cmd, size;
	uint64_t us;
} driver;

static long driver_ioctl(int fd, unsigned long request, void *arg)
{
	uint32_t *p = arg;

	if (_IOC_NR(request) == 0x2b) {
		p[2] = 0xcafe; /* the driver chooses the handle */
		return 0;
	}
	cr_assert_eq(_IOC_NR(request), 0x2a);
	cr_assert_eq(_IOC_SIZE(request), 32);
	cr_assert_eq(fd, 7);
	driver.n++;
	driver.client = p[0];
	driver.object = p[1];
	driver.cmd = p[2];
	driver.size = p[6];
	driver.us = *(uint64_t *)(uintptr_t)(p[4] | (uint64_t)p[5] << 32);
	if (driver.refuse == 1)
		return -1;
	p[7] = driver.refuse;
	return 0;
}

static int alloc(uint32_t class, uint32_t engine)
{
	uint32_t params[8] = {[3] = engine}, arg[12] = {0xc11e, 0xde51ce, 0, class};

	memcpy(&arg[4], &(void *){params}, sizeof(void *));
	return ioctl(7, RM_ALLOC, arg);
}

Test(device_tsg, groups_of_copy_engines_get_a_slice)
{
	static const uint32_t copy[] = {9, COPY_2, 18, 0x34, 0x3d};
	static const uint32_t other[] = {0, 1, 8, 19, 0x33, 0x3e};

	cuda_tsg_kernel = driver_ioctl;
	for (size_t i = 0; i < ARRAY_SIZE(other); i++)
		cr_assert_eq(alloc(TSG_CLASS, other[i]), 0);
	cr_assert_eq(alloc(TSG_CLASS + 1, COPY_2), 0);
	cr_assert_eq(driver.n, 0);
	for (size_t i = 0; i < ARRAY_SIZE(copy); i++)
		cr_assert_eq(alloc(TSG_CLASS, copy[i]), 0);
	cr_assert_eq(driver.n, ARRAY_SIZE(copy));
	cr_assert_eq(cuda_tsg_slices(), ARRAY_SIZE(copy));
	cr_assert_eq(driver.client, 0xc11e);
	cr_assert_eq(driver.object, 0xcafe);
	cr_assert_eq(driver.cmd, 0xa06c0103);
	cr_assert_eq(driver.size, sizeof(uint64_t));
	cr_assert(driver.us > 0 && driver.us < 1024);
	for (driver.refuse = 1; driver.refuse <= 2; driver.refuse++)
		cr_assert_eq(alloc(TSG_CLASS, COPY_2), 0,
			     "the group is there all the same");
	cr_assert_eq(cuda_tsg_slices(), ARRAY_SIZE(copy));
}

DEVICE_TEST(device_tsg, copy_engines_take_short_turns)
{
	cr_assert_eq(cuda_tsg_slices() > 0, !f->soft);
}
