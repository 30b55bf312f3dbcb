/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top: tenants or sessions, live. Each refresh asks weftd once; keys are read in between.
 * Where there is no terminal, or once is asked for, one picture is printed.
 */
#include <curses.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "tools/ctl/csv.h"
#include "tools/ctl/ctl.h"
#include "tools/ctl/top_view.h"

#define WIDTH_PRINTED 200 /* of a picture that is not on a terminal */
#define DELAY_S       2.0
#define DELAY_LEAST   0.1
#define DELAY_MOST    3600.0

struct top {
	const struct ctl *ctl;
	struct top_view view;
	struct client c;
	bool open;         /* a connection */
	char trouble[256]; /* why there is nothing new; empty: nothing is wrong */
	double delay;
	uint64_t next_ns; /* refresh */
	unsigned first;   /* row shown */
	bool quit;
};

/* ---- asking ---- */

static void lose(struct top *t, const char *why)
{
	snprintf(t->trouble, sizeof(t->trouble), "%s", why);
	if (t->open)
		client_close(&t->c);
	t->open = false;
}

/* Keeps the connection; a daemon that was restarted is found again. */
static void refresh_view(struct top *t)
{
	_cleanup_(ctl_putp) struct json_object *a = NULL;
	_cleanup_free_ char *why = NULL;
	int r = 0;

	t->next_ns = clock_now_ns() + (uint64_t)(t->delay * (double)NSEC_PER_SEC);
	if (!t->open) {
		r = client_open(&t->c, t->ctl->control, &why);
		if (r < 0) {
			lose(t, why ? why : client_error(r, NULL));
			return;
		}
		t->open = true;
	}
	r = client_ask(&t->c, client_request("list"), &a);
	if (r == 0)
		r = top_read(&t->view, a, clock_now_ns() / 1000);
	if (r < 0)
		lose(t, client_error(r, a));
	else
		t->trouble[0] = '\0';
}

/* ---- one picture ---- */

static int print_once(struct top *t)
{
	char line[TOP_LINE];

	refresh_view(t);
	if (t->trouble[0])
		return ctl_failed(t->ctl, "%s", t->trouble);
	for (unsigned i = 0; top_head(&t->view, i, WIDTH_PRINTED, line); i++)
		puts(line);
	top_titles(&t->view, WIDTH_PRINTED, line);
	printf("\n%s\n", line);
	for (unsigned i = 0; i < t->view.n; i++) {
		top_line(&t->view, i, WIDTH_PRINTED, line);
		puts(line);
	}
	return 0;
}

/* ---- the screen ---- */

static void put(int y, attr_t attributes, const char *line)
{
	attron(attributes);
	if (attributes & A_REVERSE)
		mvhline(y, 0, ' ', COLS);
	mvaddnstr(y, 0, line, COLS);
	attroff(attributes);
}

static void draw(struct top *t)
{
	unsigned width = (unsigned)MAX(COLS, 1);
	const struct top_view *v = &t->view;
	char line[TOP_LINE];
	unsigned last;
	int y = 0, rows;

	erase();
	while (y < LINES && top_head(v, (unsigned)y, width, line))
		put(y++, A_NORMAL, line);
	top_titles(v, width, line);
	put(y++, A_REVERSE, line);
	rows = MAX(LINES - y - 1, 0);
	if (t->first + (unsigned)rows > v->n)
		t->first = v->n > (unsigned)rows ? v->n - (unsigned)rows : 0;
	last = MIN(t->first + (unsigned)rows, v->n);
	for (unsigned i = t->first; i < last; i++) {
		const struct top_row *row = &v->rows[i];
		bool idle = !row->session && !row->sessions;

		top_line(v, i, width, line);
		put(y++, row->busy ? A_BOLD : idle ? A_DIM : A_NORMAL, line);
	}
	snprintf(
		line, sizeof(line),
		"%u-%u of %u  q quit  Tab %s  sort g/m/s/w/t/l/n  r reverse  i idle  +/- "
		"%.1f s",
		MIN(t->first + 1, v->n), last, v->n,
		v->by_session ? "tenants" : "sessions", t->delay);
	put(LINES - 1, A_REVERSE, t->trouble[0] ? t->trouble : line);
	refresh();
}

static void scroll_by(struct top *t, int rows)
{
	if (rows < 0)
		t->first -= MIN(t->first, (unsigned)-rows);
	else
		t->first += (unsigned)rows; /* draw() has a bound for it */
}

static void sort_by(struct top *t, enum top_sort sort)
{
	t->view.sort = sort;
	t->first = 0;
	top_sort(&t->view);
}

static void change_delay(struct top *t, double factor)
{
	t->delay = fmin(fmax(t->delay * factor, DELAY_LEAST), DELAY_MOST);
	t->next_ns = 0;
}

/* True if the key was one of those that move. */
static bool on_move(struct top *t, int key)
{
	int page = MAX(LINES - 6, 1);

	switch (key) {
	case KEY_UP:
	case 'k':
		scroll_by(t, -1);
		return true;
	case KEY_DOWN:
	case 'j':
		scroll_by(t, 1);
		return true;
	case KEY_PPAGE:
		scroll_by(t, -page);
		return true;
	case KEY_NPAGE:
	case ' ':
		scroll_by(t, page);
		return true;
	case KEY_HOME:
		t->first = 0;
		return true;
	case KEY_END:
		t->first = t->view.n;
		return true;
	default:
		return false;
	}
}

static bool on_sort(struct top *t, int key)
{
	static const char keys[TOP_NUM_SORTS + 1] = {
		[TOP_NAME] = 'n',     [TOP_GPU] = 'g',  [TOP_TIME] = 't',
		[TOP_MEMORY] = 'm',   [TOP_SWAP] = 's', [TOP_WAITING] = 'w',
		[TOP_SESSIONS] = 'l',
	};
	const char *at = key > 0 && key < 128 ? strchr(keys, key) : NULL;

	if (!at || !*at)
		return false;
	sort_by(t, (enum top_sort)(at - keys));
	return true;
}

static void on_key(struct top *t, int key)
{
	if (on_move(t, key) || on_sort(t, key))
		return;
	switch (key) {
	case 'q':
	case 27: /* Escape */
		t->quit = true;
		break;
	case '\t':
		t->view.by_session = !t->view.by_session;
		t->first = 0;
		t->next_ns = 0;
		break;
	case 'r':
		t->view.reverse = !t->view.reverse;
		top_sort(&t->view);
		break;
	case 'i':
		t->view.hide_idle = !t->view.hide_idle;
		t->next_ns = 0;
		break;
	case 12: /* ^L */
		clearok(curscr, TRUE);
		break;
	case '+':
		change_delay(t, 2);
		break;
	case '-':
		change_delay(t, 0.5);
		break;
	default:
		break;
	}
}

static int wait_ms(const struct top *t)
{
	uint64_t now = clock_now_ns();

	return t->next_ns > now ? (int)((t->next_ns - now) / NSEC_PER_MSEC + 1) : 0;
}

static int run_screen(struct top *t)
{
	SCREEN *screen = newterm(NULL, stdout, stdin);

	if (!screen)
		return ctl_failed(t->ctl,
				  "terminal \"%s\" is not known: set TERM, or use --once",
				  getenv("TERM") ? getenv("TERM") : "");
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	set_escdelay(25);
	curs_set(0);
	while (!t->quit) {
		int key;

		if (clock_now_ns() >= t->next_ns)
			refresh_view(t);
		draw(t);
		timeout(wait_ms(t));
		key = getch();
		/* The terminal has gone. */
		if (key == ERR && !isatty(STDIN_FILENO))
			break;
		on_key(t, key);
	}
	endwin();
	delscreen(screen);
	return 0;
}

/* ---- the command ---- */

static int read_options(struct top *t)
{
	const struct ctl *ctl = t->ctl;
	char *end;

	t->view.sort = TOP_GPU;
	t->view.bytes = ctl->bytes;
	if (ctl->sort) {
		t->view.sort = top_sort_find(ctl->sort);
		if (t->view.sort == TOP_NUM_SORTS)
			return ctl_failed(ctl, "--sort: \"%s\" is none of %s", ctl->sort,
					  top_sort_names());
	}
	t->delay = DELAY_S;
	if (!ctl->delay)
		return 0;
	t->delay = strtod(ctl->delay, &end);
	if (end == ctl->delay || *end || !(t->delay >= DELAY_LEAST) ||
	    t->delay > DELAY_MOST)
		return ctl_failed(ctl,
				  "--delay: \"%s\" is no number of seconds from 0.1 to "
				  "3600",
				  ctl->delay);
	return 0;
}

int ctl_top(const struct ctl *ctl, int argc, char **argv)
{
	struct top t = {.ctl = ctl};
	int r = read_options(&t);

	if (r)
		return r;
	if (argc > 1 && strcmp(argv[1], "sessions") != 0 &&
	    strcmp(argv[1], "tenants") != 0)
		return CTL_USAGE;
	t.view.by_session = argc > 1 && !strcmp(argv[1], "sessions");
	if (ctl->json || ctl->csv) {
		_cleanup_(ctl_putp) struct json_object *a =
			ctl_ask(ctl, client_request("list"), &r);

		if (a && t.view.by_session)
			csv_list(csv_sessions, json_get(a, "sessions"));
		else if (a)
			csv_list(csv_tenants, json_get(a, "tenants"));
		return r;
	}
	if (ctl->once || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
		r = print_once(&t);
	else
		r = run_screen(&t);
	if (t.open)
		client_close(&t.c);
	top_fini(&t.view);
	return r;
}
