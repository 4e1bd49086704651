/* As much of Spread's documented interface as the example in docs/ uses: prototypes, no library. */
#ifndef SP_H
#define SP_H

#define MAX_GROUP_NAME 32

#define AGREED_MESS 0x00000010
#define CAUSED_BY_JOIN 0x00000100
#define CAUSED_BY_LEAVE 0x00000200
#define REG_MEMB_MESS 0x00001000
#define REGULAR_MESS 0x0000003f
#define MEMBERSHIP_MESS 0x00003f00
#define REJECT_MESS 0x00400000

#define Is_regular_mess(type) (((type) & REGULAR_MESS) && !((type) & REJECT_MESS))
#define Is_membership_mess(type) (((type) & MEMBERSHIP_MESS) && !((type) & REJECT_MESS))
#define Is_reg_memb_mess(type) ((type) & REG_MEMB_MESS)
#define Is_caused_join_mess(type) ((type) & CAUSED_BY_JOIN)
#define Is_self_leave(type) (((type) & CAUSED_BY_LEAVE) && !((type) & REG_MEMB_MESS))

typedef short int16;
typedef int int32;
typedef int mailbox;
typedef int service;

typedef struct {
    int32 id[3];
} group_id;

typedef struct {
    unsigned int num_members;
    unsigned int members_offset;
} vs_set_info;

typedef struct {
    group_id gid;
    char changed_member[MAX_GROUP_NAME];
    unsigned int num_vs_sets;
    vs_set_info my_vs_set;
} membership_info;

int SP_connect(const char *spread_name, const char *private_name, int priority,
               int group_membership, mailbox *mbox, char *private_group);
int SP_disconnect(mailbox mbox);
int SP_join(mailbox mbox, const char *group);
int SP_leave(mailbox mbox, const char *group);
int SP_multicast(mailbox mbox, service service_type, const char *group, int16 mess_type,
                 int mess_len, const char *mess);
int SP_receive(mailbox mbox, service *service_type, char sender[MAX_GROUP_NAME], int max_groups,
               int *num_groups, char groups[][MAX_GROUP_NAME], int16 *mess_type,
               int *endian_mismatch, int max_mess_len, char *mess);
int SP_get_memb_info(const char *memb_mess, const service service_type,
                     membership_info *memb_info);
void SP_error(int error);

#endif
