/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/macros.h"
#include "codec.h"
#include "link.h"
#include "nvml_session.h"
#include "core/known.h"
#include "core/refused.h"

static struct {
	pthread_mutex_t lock;
	unsigned users;
	bool forked_hook;
	struct link *link;
	struct lane *lane;
	struct session_open_rep info;
} session = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct refused_list refused = {.lock = PTHREAD_MUTEX_INITIALIZER};

static char the_device; /* its address is the handle */

struct nvml_device *nvml_the_device(void)
{
	return (struct nvml_device *)&the_device;
}

/* The child has no session: it must call nvmlInit for one of its own. */
static void after_fork_child(void)
{
	pthread_mutex_init(&session.lock, NULL);
	pthread_mutex_init(&refused.lock, NULL);
	if (session.link)
		link_abandon(session.link);
	session.link = NULL;
	session.lane = NULL;
	session.users = 0;
}

/* Why a command could not be begun. */
static enum nvml_return no_room_locked(uint16_t op)
{
	return lane_knows(session.lane, op) ? NVML_ERROR_GPU_IS_LOST
					    : NVML_ERROR_NOT_SUPPORTED;
}

/* Sends what was begun; the reply's structure is given size bytes. */
static enum nvml_return call_locked(uint32_t size, struct lane_reply *ret_reply)
{
	const struct wire_result *res;
	int r = lane_call(session.lane, ret_reply);

	if (r < 0 || ret_reply->fixed < sizeof(*res))
		return r == -EOPNOTSUPP ? NVML_ERROR_NOT_SUPPORTED
					: NVML_ERROR_GPU_IS_LOST;
	res = ret_reply->body;
	if (res->result)
		return NVML_ERROR_UNKNOWN;
	if (ret_reply->fixed != size)
		lane_fit_reply(session.lane, ret_reply, size, NULL);
	return NVML_SUCCESS;
}

static enum nvml_return learn_operations_locked(void)
{
	struct operations_cmd *cmd;
	struct lane_reply reply;
	enum nvml_return r;

	cmd = lane_begin(session.lane, WIRE_OP_operations, sizeof(*cmd), 0, NULL);
	if (!cmd)
		return NVML_ERROR_GPU_IS_LOST;
	operations_cmd_init(cmd);
	r = call_locked(sizeof(struct operations_rep), &reply);
	if (r)
		return r;
	return known_keep(session.link, reply.body, reply.body_size) < 0
		       ? NVML_ERROR_GPU_IS_LOST
		       : NVML_SUCCESS;
}

static enum nvml_return ask_info_locked(void)
{
	struct session_open_cmd *cmd;
	struct lane_reply reply;
	enum nvml_return r;

	cmd = lane_begin(session.lane, WIRE_OP_session_open, sizeof(*cmd), 0, NULL);
	if (!cmd)
		return NVML_ERROR_GPU_IS_LOST;
	session_open_cmd_init(cmd);
	known_introduce(cmd, 0);
	r = call_locked(sizeof(session.info), &reply);
	if (r)
		return r;
	memcpy(&session.info, reply.body, sizeof(session.info));
	session.info.name[sizeof(session.info.name) - 1] = '\0';
	session.info.driver[sizeof(session.info.driver) - 1] = '\0';
	return known_differs(&session.info) ? learn_operations_locked() : NVML_SUCCESS;
}

static void close_locked(void)
{
	lane_free(session.lane);
	link_free(session.link);
	session.lane = NULL;
	session.link = NULL;
}

static enum nvml_return open_locked(void)
{
	static const struct link_opts opts = {.monitor = true};
	_cleanup_free_ char *why = NULL;
	enum nvml_return r;

	if (!session.forked_hook && pthread_atfork(NULL, NULL, after_fork_child))
		return NVML_ERROR_MEMORY;
	session.forked_hook = true;
	if (link_connect(&opts, &session.link, &why) < 0) {
		session.link = NULL;
		log_debug("NVML: no GPU: %s", why ? why : "?");
		return NVML_ERROR_DRIVER_NOT_LOADED;
	}
	if (link_lane(session.link, &session.lane) < 0) {
		session.lane = NULL;
		close_locked();
		return NVML_ERROR_GPU_IS_LOST;
	}
	r = ask_info_locked();
	if (r)
		close_locked();
	return r;
}

static void tell_refused_locked(void)
{
	char what[REFUSAL_TEXT];
	struct lane_reply reply;
	struct refused_cmd *cmd;
	enum refusal kind;
	uint64_t count;
	bool first;

	while (session.users && refused_next(&refused, &kind, what, &count, &first)) {
		cmd = lane_begin(session.lane, WIRE_OP_refused, sizeof(*cmd), 0, NULL);
		if (!cmd)
			return;
		refused_cmd_init(cmd);
		cmd->kind = kind;
		cmd->count = count;
		memcpy(cmd->what, what, sizeof(cmd->what));
		if (call_locked(sizeof(struct refused_rep), &reply))
			return;
	}
}

enum nvml_return nvml_session_open(void)
{
	enum nvml_return r = NVML_SUCCESS;

	pthread_mutex_lock(&session.lock);
	if (!session.users)
		r = open_locked();
	if (r == NVML_SUCCESS && session.users++ == 0)
		tell_refused_locked();
	pthread_mutex_unlock(&session.lock);
	return r;
}

enum nvml_return nvml_session_close(void)
{
	enum nvml_return r = NVML_SUCCESS;

	pthread_mutex_lock(&session.lock);
	if (!session.users)
		r = NVML_ERROR_UNINITIALIZED;
	else if (--session.users == 0)
		close_locked();
	pthread_mutex_unlock(&session.lock);
	return r;
}

enum nvml_return nvml_session_info(const struct session_open_rep **ret_info)
{
	bool open;

	pthread_mutex_lock(&session.lock);
	open = session.users > 0;
	pthread_mutex_unlock(&session.lock);
	if (!open)
		return NVML_ERROR_UNINITIALIZED;
	*ret_info = &session.info;
	return NVML_SUCCESS;
}

enum nvml_return nvml_session_device(const struct nvml_device *dev,
				     const struct session_open_rep **ret_info)
{
	enum nvml_return r = nvml_session_info(ret_info);

	if (r)
		return r;
	return dev == nvml_the_device() && (*ret_info)->device_count
		       ? NVML_SUCCESS
		       : NVML_ERROR_INVALID_ARGUMENT;
}

enum nvml_return nvml_enter(const struct nvml_device *dev, const void *out,
			    const struct session_open_rep **ret_info)
{
	enum nvml_return r = nvml_session_device(dev, ret_info);

	if (r)
		return r;
	return out ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

void nvml_refuse(enum refusal kind, const char *what)
{
	log_debug("NVML: refused: %s", what);
	if (!refused_count(&refused, kind, what))
		return;
	pthread_mutex_lock(&session.lock);
	tell_refused_locked();
	pthread_mutex_unlock(&session.lock);
}

int nvml_attribute(const struct session_open_rep *info, unsigned attr, int fallback)
{
	if (attr >= ARRAY_SIZE(info->attribute) ||
	    !(info->attribute_known[attr / 32] >> (attr % 32) & 1))
		return fallback;
	return info->attribute[attr];
}

static enum nvml_return status_locked(struct device_status_rep *ret_status)
{
	struct device_status_cmd *cmd;
	struct lane_reply reply;
	enum nvml_return r;

	if (!session.users)
		return NVML_ERROR_UNINITIALIZED;
	cmd = lane_begin(session.lane, WIRE_OP_device_status, sizeof(*cmd), 0, NULL);
	if (!cmd)
		return no_room_locked(WIRE_OP_device_status);
	device_status_cmd_init(cmd);
	r = call_locked(sizeof(*ret_status), &reply);
	if (r == NVML_SUCCESS)
		memcpy(ret_status, reply.body, sizeof(*ret_status));
	return r;
}

enum nvml_return nvml_session_status(struct device_status_rep *ret_status)
{
	enum nvml_return r;

	pthread_mutex_lock(&session.lock);
	r = status_locked(ret_status);
	pthread_mutex_unlock(&session.lock);
	return r;
}

static enum nvml_return sensors_locked(struct device_sensors_rep *ret_sensors)
{
	struct device_sensors_cmd *cmd;
	struct lane_reply reply;
	enum nvml_return r;

	if (!session.users)
		return NVML_ERROR_UNINITIALIZED;
	cmd = lane_begin(session.lane, WIRE_OP_device_sensors, sizeof(*cmd), 0, NULL);
	if (!cmd)
		return no_room_locked(WIRE_OP_device_sensors);
	device_sensors_cmd_init(cmd);
	r = call_locked(sizeof(*ret_sensors), &reply);
	if (r == NVML_SUCCESS)
		memcpy(ret_sensors, reply.body, sizeof(*ret_sensors));
	return r;
}

enum nvml_return nvml_session_sensors(uint32_t ret_value[SENSOR_NUM])
{
	struct device_sensors_rep rep;
	enum nvml_return r;

	static_assert(sizeof(rep.value) >= SENSOR_NUM * sizeof(uint32_t), "all fit");
	pthread_mutex_lock(&session.lock);
	r = sensors_locked(&rep);
	pthread_mutex_unlock(&session.lock);
	if (r == NVML_SUCCESS)
		memcpy(ret_value, rep.value, SENSOR_NUM * sizeof(uint32_t));
	return r;
}

enum nvml_return nvml_session_sensor(enum sensor which, unsigned *ret_value)
{
	uint32_t value[SENSOR_NUM];
	enum nvml_return r = nvml_session_sensors(value);

	if (r)
		return r;
	if (value[which] == SENSOR_NONE)
		return NVML_ERROR_NOT_SUPPORTED;
	*ret_value = value[which];
	return NVML_SUCCESS;
}

static enum nvml_return processes_locked(struct nvml_user **ret_list, unsigned *ret_count)
{
	struct nvml_user *list;
	struct process_list_reply out;
	struct process_list_cmd *cmd;
	struct lane_reply reply;
	enum nvml_return r;
	uint32_t n;
	size_t size;

	if (!session.users)
		return NVML_ERROR_UNINITIALIZED;
	cmd = lane_begin(session.lane, WIRE_OP_process_list, sizeof(*cmd), 0, NULL);
	if (!cmd)
		return no_room_locked(WIRE_OP_process_list);
	process_list_cmd_init(cmd);
	r = call_locked(sizeof(struct process_list_rep), &reply);
	if (r)
		return r;
	if (process_list_reply_decode(reply.body, reply.body_size, &out) < 0)
		return NVML_ERROR_GPU_IS_LOST;
	n = out.rep->process_count;
	size = n * sizeof(*list);
	list = malloc(size ? size : 1);
	if (!list)
		return NVML_ERROR_MEMORY;
	for (uint32_t i = 0; i < n; i++)
		list[i] = (struct nvml_user){.is = out.process[i],
					     .draws = i < out.rep->draws_count &&
						      out.draws[i]};
	*ret_list = list;
	*ret_count = n;
	return NVML_SUCCESS;
}

enum nvml_return nvml_session_processes(struct nvml_user **ret_list, unsigned *ret_count)
{
	enum nvml_return r;

	pthread_mutex_lock(&session.lock);
	r = processes_locked(ret_list, ret_count);
	pthread_mutex_unlock(&session.lock);
	return r;
}
