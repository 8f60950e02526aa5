/* ConcurrencyKit's locks are inline functions. These give each an address, and nothing else. */
#include <ck_pflock.h>
#include <ck_rwlock.h>
#include <ck_spinlock.h>
#include <stdbool.h>

void pvlab_ck_ticket_lock(ck_spinlock_ticket_t *lock) { ck_spinlock_ticket_lock(lock); }
bool pvlab_ck_ticket_trylock(ck_spinlock_ticket_t *lock) { return ck_spinlock_ticket_trylock(lock); }
void pvlab_ck_ticket_unlock(ck_spinlock_ticket_t *lock) { ck_spinlock_ticket_unlock(lock); }

void pvlab_ck_mcs_lock(ck_spinlock_mcs_t *queue, ck_spinlock_mcs_context_t *node) {
	ck_spinlock_mcs_lock(queue, node);
}
bool pvlab_ck_mcs_trylock(ck_spinlock_mcs_t *queue, ck_spinlock_mcs_context_t *node) {
	return ck_spinlock_mcs_trylock(queue, node);
}
void pvlab_ck_mcs_unlock(ck_spinlock_mcs_t *queue, ck_spinlock_mcs_context_t *node) {
	ck_spinlock_mcs_unlock(queue, node);
}

void pvlab_ck_rwlock_write_lock(ck_rwlock_t *lock) { ck_rwlock_write_lock(lock); }
bool pvlab_ck_rwlock_write_trylock(ck_rwlock_t *lock) { return ck_rwlock_write_trylock(lock); }
void pvlab_ck_rwlock_write_unlock(ck_rwlock_t *lock) { ck_rwlock_write_unlock(lock); }
void pvlab_ck_rwlock_read_lock(ck_rwlock_t *lock) { ck_rwlock_read_lock(lock); }
bool pvlab_ck_rwlock_read_trylock(ck_rwlock_t *lock) { return ck_rwlock_read_trylock(lock); }
void pvlab_ck_rwlock_read_unlock(ck_rwlock_t *lock) { ck_rwlock_read_unlock(lock); }

void pvlab_ck_pflock_write_lock(ck_pflock_t *lock) { ck_pflock_write_lock(lock); }
void pvlab_ck_pflock_write_unlock(ck_pflock_t *lock) { ck_pflock_write_unlock(lock); }
void pvlab_ck_pflock_read_lock(ck_pflock_t *lock) { ck_pflock_read_lock(lock); }
void pvlab_ck_pflock_read_unlock(ck_pflock_t *lock) { ck_pflock_read_unlock(lock); }

_Static_assert(sizeof(ck_spinlock_ticket_t) <= 8, "src/ck.rs has the sizes");
_Static_assert(sizeof(ck_spinlock_mcs_context_t) <= 64, "src/ck.rs has the sizes");
_Static_assert(sizeof(ck_rwlock_t) <= 8, "src/ck.rs has the sizes");
_Static_assert(sizeof(ck_pflock_t) <= 16, "src/ck.rs has the sizes");
