/* A sender or a receiver of Spread in C; it reads and prints the lines of program.py.
 *
 * spread_program sender|receiver DAEMON INDEX COUNTERS RECEIVERS GROUP SIZE WINDOW RATE
 *
 * Each message begins with the time, in nanoseconds, and its number. The window is the most
 * messages by which the sender is ahead of the slowest receiver; with a rate of 0 it sends as many
 * as that allows.
 */
#include <fcntl.h>
#include <poll.h>
#include <sp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LARGEST = 144000, MOST = 1 << 22, END = 1, THIN_NS = 2000000, SETTLE_S = 1 };

struct head {
    uint64_t time_ns, number;
};

static mailbox box;
static char message[LARGEST];
static volatile uint64_t *counters;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void check(int status, const char *what) {
    if (status >= 0) return;
    fprintf(stderr, "%s fails with status %d; does spread run?\n", what, status);
    exit(1);
}

static void read_line(void) {
    for (int c = getchar(); c != '\n' && c != EOF; c = getchar());
}

static int is_readable(int file, int wait_ms) {
    struct pollfd one = {file, POLLIN, 0};
    return poll(&one, 1, wait_ms) > 0;
}

/* Receive; return whether it is a message of a program. */
static int receive(int16 *kind) {
    static char sender[MAX_GROUP_NAME], groups[100][MAX_GROUP_NAME];
    int count, mismatch;
    service type = 0;
    check(SP_receive(box, &type, sender, 100, &count, groups, kind, &mismatch, LARGEST, message),
          "SP_receive");
    return Is_regular_mess(type);
}

static void be_receiver(int index, const char *group, int is_timed) {
    static uint64_t at[MOST], figure[MOST];
    uint64_t used = 0, got = 0, expected = 0, skipped = 0, late = 0;
    struct head head;
    int16 kind = 0; /* of a membership message it is a place in the group */
    check(SP_join(box, group), "SP_join");
    while (receive(&kind));
    puts("{\"ready\": \"receiver\"}");
    fflush(stdout);
    read_line();
    while (!is_readable(0, 0)) {
        if (!is_readable(box, 200) || !receive(&kind)) continue;
        if (kind == END) break;
        uint64_t now = now_ns();
        memcpy(&head, message, sizeof head);
        counters[index] = ++got;
        if (head.number >= expected) {
            skipped += head.number - expected;
            expected = head.number + 1;
        } else late++;
        if (is_timed && used < MOST) {
            at[used] = now;
            figure[used++] = now - head.time_ns;
        } else if (!is_timed) {
            if (used < MOST && (!used || now - at[used - 1] >= THIN_NS)) at[used++] = now;
            figure[used - 1] = got;
        }
    }
    printf("{\"accounts\": [{\"got\": %lu, \"expected\": %lu, \"skipped\": %lu, \"duplicated\": 0,"
           " \"misordered\": %lu, \"wrong\": 0, \"timed\": %lu}], \"wrong_timed\": 0, \"order\": 0,",
           got, is_timed ? 0 : expected, skipped, late, is_timed ? got : 0);
    printf(" \"counts\": [%s", is_timed ? "], \"delays\": [" : "");
    for (uint64_t i = 0; i < used; i++) printf("%s[%lu, %lu]", i ? ", " : "", at[i], figure[i]);
    puts(is_timed ? "]}" : "], \"delays\": []}");
    fflush(stdout);
}

static void be_sender(const char *group, int receivers, int size, uint64_t window, double rate) {
    struct head head = {0, 0};
    sleep(SETTLE_S); /* receivers have joined at their daemons, but not yet at ours */
    puts("{\"ready\": \"sender\"}");
    fflush(stdout);
    read_line();
    uint64_t began = now_ns(), least = 0;
    while (!is_readable(0, 0)) {
        for (int turn = 0; turn < 16; turn++) {
            double ahead_ns = rate ? began + head.number * 1e9 / rate - now_ns() : 0;
            least = counters[0];
            for (int i = 1; i < receivers; i++) if (counters[i] < least) least = counters[i];
            if (ahead_ns > 0 || head.number >= least + window) {
                usleep(ahead_ns > 1e6 ? 1000 : 50);
                break;
            }
            head.time_ns = now_ns();
            memcpy(message, &head, sizeof head);
            check(SP_multicast(box, AGREED_MESS, group, 0, size, message), "SP_multicast");
            head.number++;
        }
    }
    read_line();
    check(SP_multicast(box, AGREED_MESS, group, END, size, message), "SP_multicast");
    printf("{\"sent\": %lu, \"timed\": %lu}\n", rate ? 0 : head.number, rate ? head.number : 0);
    fflush(stdout);
    read_line();
}

int main(int count, char **words) {
    char name[MAX_GROUP_NAME], private_group[MAX_GROUP_NAME];
    if (count != 10) return 2;
    int index = atoi(words[3]), receivers = atoi(words[5]), size = atoi(words[7]);
    int is_receiver = !strcmp(words[1], "receiver"), file = open(words[4], O_RDWR);
    double rate = atof(words[9]);
    counters = mmap(0, 8 * receivers, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (counters == MAP_FAILED) return 2;
    snprintf(name, sizeof name, "%c%d", words[1][0], getpid() % 100000);
    int status = SP_connect(words[2], name, 0, is_receiver, &box, private_group);
    check(status == 1 ? 0 : status < 0 ? status : -1, "SP_connect");
    if (is_receiver) be_receiver(index, words[6], rate > 0);
    else be_sender(words[6], receivers, size, strtoull(words[8], 0, 10), rate);
    return 0;
}
