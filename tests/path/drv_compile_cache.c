/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The private table by which NVRTC and nvJitLink keep what they compiled, called as they
 * call it, in two processes one after the other.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

typedef void (*slot)(void);

static const CUuuid cache_id = {{0xda, 0x91, 0x51, 0xd3, 0x3a, 0xe6, 0xcc, 0x41, 0xa5,
				 0xc0, 0x4f, 0x26, 0xd5, 0x33, 0xe3, 0x28}};

static const char maker[] = "HOST64\0Jan  1 202512:00:00";
static const char source[] = "bitcode of a kernel";
static const char made[] = "the kernel's PTX";

struct table {
	CUresult (*open)(void **, int, const void *, size_t, const char *, const char *);
	CUresult (*close)(void *, int);
	CUresult (*find)(void *, int, void **, unsigned *);
	CUresult (*add)(void *, int, const void *, size_t);
	CUresult (*free)(void *);
};

static struct table find_table(void)
{
	const slot *t;

	CK(cuGetExportTable((const void **)&t, &cache_id));
	REQUIRE((uintptr_t)t[0] == 7 * sizeof(slot));
	return (struct table){
		(CUresult(*)(void **, int, const void *, size_t, const char *,
			     const char *))t[1],
		(CUresult(*)(void *, int))t[2],
		(CUresult(*)(void *, int, void **, unsigned *))t[3],
		(CUresult(*)(void *, int, const void *, size_t))t[4],
		(CUresult(*)(void *))t[6],
	};
}

/* Whether an entry is there; what is there must be right. */
static int is_kept(const struct table *t, int kind, const char *options)
{
	unsigned size[2] = {0, 0xfeedface};
	void *entry, *data = NULL;
	CUresult r;

	CK(t->open(&entry, kind, source, sizeof(source), options, maker));
	r = t->find(entry, 0, &data, size);
	REQUIRE(r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_FOUND);
	REQUIRE(size[1] == 0xfeedface); /* the size has 32 bits */
	if (r == CUDA_SUCCESS) {
		REQUIRE(size[0] == sizeof(made) && memcmp(data, made, sizeof(made)) == 0);
		CK(t->free(data));
	}
	CK(t->close(entry, 0));
	return r == CUDA_SUCCESS;
}

static void keep(const struct table *t, int kind, const char *options)
{
	void *entry;

	CK(t->open(&entry, kind, source, sizeof(source), options, maker));
	CK(t->add(entry, 0, made, sizeof(made)));
	CK(t->close(entry, 0));
}

static void run(int second)
{
	struct table t;

	CK(cuInit(0));
	t = find_table();
	REQUIRE(is_kept(&t, 2, " -arch=compute_90") == second);
	REQUIRE(!is_kept(&t, 1, " -arch=compute_90"));
	REQUIRE(!is_kept(&t, 2, " -arch=compute_80"));
	keep(&t, 2, " -arch=compute_90");
	REQUIRE(is_kept(&t, 2, " -arch=compute_90"));
}

static void run_off(void)
{
	struct table t;
	void *entry;

	setenv("CUDA_CACHE_DISABLE", "1", 1);
	CK(cuInit(0));
	t = find_table();
	REQUIRE(t.open(&entry, 2, source, sizeof(source), "", maker) ==
		CUDA_ERROR_NOT_INITIALIZED);
}

static void in_child(void (*f)(int), int arg)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (f)
			f(arg);
		else
			run_off();
		_exit(0);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(void)
{
	char folder[] = "/tmp/weft-path-cache-XXXXXX", cmd[64];

	check_name = "drv_compile_cache";
	REQUIRE(mkdtemp(folder));
	setenv("CUDA_CACHE_PATH", folder, 1);
	in_child(run, 0);
	in_child(run, 1);
	in_child(NULL, 0);
	snprintf(cmd, sizeof(cmd), "rm -r %s", folder);
	REQUIRE(system(cmd) == 0);
	return pass();
}
