/* SPDX-License-Identifier: Apache-2.0 */
/* Where a host is: addresses in text, and the PCI device that has a VM's window. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "address.h"
#include "bar.h"
#include "base/fd.h"
#include "wire.h"

Test(address, an_address_has_one_of_two_forms)
{
	static const char *const bad[] = {
		"",           "unix",        "unix:",      "vsock",
		"vsock:",     "vsock:2",     "vsock:2:",   "vsock::1",
		"vsock:2:1x", "vsock: 2:1",  "vsock:-1:1", "vsock:2:4294967296",
		"/run/x",     "vsock:2:1:3", "tcp:1",
	};
	char longest[200] = "unix:/";
	struct address a;

	cr_assert_eq(address_parse("unix:/run/weft/weft.sock", &a), 0);
	cr_assert(!address_is_vsock(&a));
	cr_assert_eq(address_parse("vsock:2:22887", &a), 0);
	cr_assert(address_is_vsock(&a));
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		cr_assert_eq(address_parse(bad[i], &a), -EINVAL, "%s", bad[i]);
	memset(longest + 6, 'x', 106);
	cr_assert_eq(address_parse(longest, &a), 0);
	longest[6 + 106] = 'x';
	cr_assert_eq(address_parse(longest, &a), -EINVAL);
}

static void write_file(const char *dir, const char *name, const void *data, size_t size,
		       size_t total)
{
	char path[200];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	cr_assert_eq(write(fd, data, size), (ssize_t)size);
	cr_assert_eq(ftruncate(fd, (off_t)total), 0);
	close(fd);
}

Test(bar, finds_the_window_among_other_devices)
{
	struct wire_window_id id = {.magic = WIRE_MAGIC,
				    .version = WIRE_WINDOW_VERSION,
				    .key = 0x1234,
				    .size = 1 << 20};
	char top[] = "/tmp/weft-pci-XXXXXX", dir[100], cmd[150];
	struct bar b = {0};
	char why[BAR_WHY_MAX];

	cr_assert_not_null(mkdtemp(top));
	cr_assert_eq(bar_find(top, &b, why), -ENODEV);
	cr_assert(strstr(why, "no such device"), "%s", why);
	snprintf(dir, sizeof(dir), "%s/0000:00:01.0", top);
	cr_assert_eq(mkdir(dir, 0700), 0);
	write_file(dir, "vendor", "0x1af4\n", 7, 7);
	write_file(dir, "device", "0x1000\n", 7, 7);
	write_file(dir, "resource2_wc", &id, sizeof(id), 1 << 20);
	cr_assert_eq(bar_find(top, &b, why), -ENODEV, "another virtio device");
	write_file(dir, "device", "0x1110\n", 7, 7);
	cr_assert_eq(bar_find(top, &b, why), 0);
	cr_assert_eq(b.key, 0x1234);
	cr_assert_eq(b.size, 1 << 20);
	cr_assert(b.weak);
	bar_fini(&b);
	id.size = 2 << 20; /* the host's is larger */
	write_file(dir, "resource2_wc", &id, sizeof(id), 1 << 20);
	cr_assert_eq(bar_find(top, &b, why), -EMSGSIZE);
	cr_assert(strstr(why, "has 1 MiB, the host's window.size is 2 MiB"), "%s", why);
	id.version--;
	write_file(dir, "resource2_wc", &id, sizeof(id), 1 << 20);
	cr_assert_eq(bar_find(top, &b, why), -EPROTONOSUPPORT);
	cr_assert(strstr(why, "upgrade the host"), "%s", why);
	id.version++;
	id.size = 1 << 20;
	id.key = 0; /* not ours yet */
	write_file(dir, "resource2_wc", &id, sizeof(id), 1 << 20);
	cr_assert_eq(bar_find(top, &b, why), -ENODEV);
	cr_assert(strstr(why, "none of Weft's"), "%s", why);
	id.key = 5;
	snprintf(cmd, sizeof(cmd), "%s/resource2_wc", dir);
	unlink(cmd);
	write_file(dir, "resource2", &id, sizeof(id), 1 << 20);
	cr_assert_eq(bar_find(top, &b, why), 0);
	cr_assert(!b.weak);
	bar_fini(&b);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", top);
	cr_assert_eq(system(cmd), 0);
}
