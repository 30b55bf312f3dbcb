/* SPDX-License-Identifier: Apache-2.0 */
/* Many programs that start at the same moment all get the device. */
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

#define PROGRAMS 56

int main(void)
{
	int go[2], done[2], status, bad = 0;
	char byte;

	check_name = "drv_start";
	REQUIRE(!pipe(go) && !pipe(done));
	for (int i = 0; i < PROGRAMS; i++) {
		pid_t pid = fork();

		REQUIRE(pid >= 0);
		if (pid)
			continue;
		close(go[1]);
		close(done[1]);
		REQUIRE(read(go[0], &byte, 1) == 0); /* until all are there */
		CK(cuInit(0));
		/* Nobody makes room for another. */
		REQUIRE(read(done[0], &byte, 1) == 0);
		_exit(0);
	}
	close(go[1]);
	sleep(1); /* whoever would be refused is, and has ended */
	close(done[1]);
	for (int i = 0; i < PROGRAMS; i++) {
		REQUIRE(wait(&status) > 0);
		bad += status != 0;
	}
	if (bad)
		fail("%d of %d have no device", bad, PROGRAMS);
	return pass();
}
