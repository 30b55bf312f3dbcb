/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A forked child has registered memory as it was at the fork, whatever its parent and the
 * device write afterwards, and what the child writes is its own. Pinned memory is shared.
 */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

#define PAGE 4096u
#define SIZE (300 * PAGE)
#define FROM 100 /* what is registered begins and ends within pages */
#define TO   (SIZE - 200)

static unsigned char *memory, *pinned;
static CUdeviceptr on_device;
static int to_child[2], to_parent[2];

static void is(size_t from, size_t to, unsigned char value, const char *where)
{
	for (size_t i = from; i < to; i++) {
		if (memory[i] != value)
			fail("%s: byte %zu is %u instead of %u", where, i, memory[i],
			     value);
	}
}

static void wait_for(int fd)
{
	char c;

	REQUIRE(read(fd, &c, 1) == 1);
}

static void tell(int fd)
{
	REQUIRE(write(fd, "x", 1) == 1);
}

static void ends_well(pid_t pid)
{
	int status;

	REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid);
	REQUIRE(status == 0);
}

static void grandchild(void)
{
	pid_t pid = fork();

	if (!pid) {
		is(0, PAGE, 3, "in a child's child");
		is(PAGE, SIZE, 1, "in a child's child");
		memset(memory, 4, SIZE);
		_exit(0);
	}
	ends_well(pid);
}

static void child(void)
{
	is(0, SIZE, 1, "in a child, at once");
	memset(memory, 3, PAGE);
	pinned[1] = 6;
	tell(to_parent[1]);
	wait_for(to_child[0]); /* the parent has written to it, and the device */
	is(0, PAGE, 3, "what a child wrote");
	is(PAGE, SIZE, 1, "in a child, later");
	REQUIRE(pinned[0] == 5);
	grandchild();
	tell(to_parent[1]);
	wait_for(to_child[0]); /* it is not registered any more */
	is(0, PAGE, 3, "what a child wrote");
	is(PAGE, SIZE, 1, "in a child, at last");
	EXPECT(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
	_exit(0);
}

static void one(void)
{
	pid_t pid;

	memset(memory, 1, SIZE);
	CK(cuMemHostRegister(memory + FROM, TO - FROM, 0));
	pid = fork();
	if (!pid)
		child();
	wait_for(to_parent[0]);
	is(0, SIZE, 1, "what a child wrote, in its parent");
	REQUIRE(pinned[1] == 6);
	pinned[0] = 5;
	memset(memory, 2, SIZE);
	CK(cuMemcpyDtoHAsync(memory + FROM, on_device, TO - FROM, NULL));
	CK(cuCtxSynchronize());
	tell(to_child[1]);
	wait_for(to_parent[0]);
	is(FROM, TO, 9, "what the device wrote");
	CK(cuMemHostUnregister(memory + FROM));
	memset(memory, 8, SIZE);
	tell(to_child[1]);
	ends_well(pid);
	is(0, SIZE, 8, "in the parent, at last");
}

int main(void)
{
	CUcontext ctx;

	check_name = "drv_fork";
	CK(cuInit(0));
	CK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CK(cuCtxSetCurrent(ctx));
	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	REQUIRE(memory != MAP_FAILED && !pipe(to_child) && !pipe(to_parent));
	CK(cuMemHostAlloc((void **)&pinned, PAGE, 0));
	CK(cuMemAlloc(&on_device, SIZE));
	CK(cuMemsetD8(on_device, 9, SIZE));
	for (unsigned i = 0; i < 3; i++)
		one();
	return pass();
}
