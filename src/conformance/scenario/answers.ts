/**
 * Made by scripts/scenario-answers.ts: what the scenario is answered where a driver declares no difference.
 * Long because it contains every answer.
 */
export const transcript: string = `
# a free lock is granted, a taken one is not
a tries → a lease
a: state, isHeld, holdCount → held, true, 1
b tries → undefined
b asks without waiting → AcquireTimeoutError ACQUIRE_TIMEOUT
b waits for 2 s → AcquireTimeoutError ACQUIRE_TIMEOUT
the error names the holder → true
a releases → released
a releases again → already-released
a: state, isHeld, holdCount → released, false, 0
a: the signal is aborted → false
a asserts that it holds → LeaseLostError LEASE_LOST taken
b tries → a lease
b releases → released

# a waiter gets the released lock, and no try passes it
a acquires → a lease
c tries while a releases → undefined
a releases → released
b, who waited → a lease
b has a greater token than a had → true
c tries → undefined
b releases → released

# a lease is worth its ttl from its first moment
a acquires → a lease
a: nine tenths of its ttl are left → true
a releases → released
b, who waited → a lease
b: nine tenths of its ttl are left → true
b asserts that it holds → undefined
b a second later: isHeld → true
c tries → undefined
b releases → released

# \`fair: true\` is first come, first served
a acquires with fair: true → a lease
a releases → released
c, b and a waited; served were → c, b, a

# a cancelled wait leaves no trace
a acquires → a lease
b, who went away → Error: the user went away
a releases → released
c, who waited → a lease
c releases → released

# \`extend\` works in both directions
a acquires for 10 s, without renewal → a lease
a extends to no number → RangeError
a extends to 0 ms → RangeError
a extends for ever → RangeError
a: as long as before → true
a extends to 30 s: nine tenths are left → true
a extends to less: no more than that is left → true
b waits for the end of it → a lease
a when b has it: isHeld → false
b releases → released

# a lease that runs out is lost in one way, for good
a acquires, without renewal → a lease
b waits for the end of it → a lease
a when b has it: isHeld → false
a hears of the loss → expired
a: state, isHeld, remaining → lost, false, 0
a: the reason of the signal → LeaseLostError LEASE_LOST expired
a asserts that it holds → LeaseLostError LEASE_LOST expired
a extends → LeaseLostError LEASE_LOST expired
a releases, too late → lost
a releases again → lost
b: isHeld → true
c tries → undefined
b releases → released

# a forced release is heard at once
c releases a free lock by force → 0
a, who waited → a lease
c releases it by force → 1
a hears of the loss → revoked
a: state, isHeld, remaining → lost, false, 0
a asserts: the reason of the signal → true
b acquires → a lease
a releases, too late → lost
b: isHeld → true
c tries → undefined
b releases → released

# a holder that is killed keeps nobody out for long
another process → sees the store
a tries while that process has it → undefined
b, who waited, after it was killed → a lease
b has a greater token than it had → true
b releases → released

# busy is not broken
b acquires → a lease
a tries → undefined
a, cut off, tries → BackendError UNAVAILABLE
a, cut off, waits for 300 ms → BackendError UNAVAILABLE
b, who was not cut off: isHeld → true
b releases → released
a, healed, acquires → a lease
a releases → released

# tokens grow with every grant
a acquires → a lease
a extends: the same token → true
b, who waited → a lease
b releases → released
a runs three times at once → done
a acquires, without renewal → a lease
b waits for the end of it → a lease
b releases → released
tokens → 7
all are safe integers → true
each is greater than the one before → true

# \`lockDelay\` keeps others out after a loss
a acquires with a lockDelay → a lease
a releases → released
b acquires at once → a lease
b releases → released
a acquires, without renewal → a lease
b waits for the end of it → a lease
ttl and lockDelay have passed → true
a when b has it: isHeld → false
b releases → released

# waiting for oneself is an error, entering again is not
a, inside run, acquires → DeadlockError DEADLOCK
a, inside run, tries → undefined
a acquires with reentrant: true → a lease
the same token → true
a: holdCount → 2
a releases the inner one → released
a: isHeld, holdCount → true, 1
b tries → undefined
b tries after run → a lease
b releases → released

# readers share, a writer is alone
a makes a read/write lock → made
a reads → a lease
b reads → a lease
c tries to write → undefined
a releases → released
b releases → released
c writes → a lease
a tries to read → undefined
c goes down to reading → a lease
c releases the writing → released
a reads → a lease
b tries to write → undefined
a releases → released
c releases → released

# a semaphore counts by weight
a makes a semaphore of 3 → made
a takes 4 → RangeError
a takes 2 → a lease
b tries 2 → undefined
b takes 1 → a lease
another client takes 1 of 4 → RangeError
a releases → released
c, who waited for 2 → a lease
b releases → released
c releases → released

# several locks are taken together, in one step
a acquires two → a lease
requests for a lock → 1
b tries one of them → undefined
a releases → released
b acquires one of them → a lease
a tries two → undefined
the other is free → true
b releases → released
a, who waited → a lease
a releases → released

# \`inspect\`, \`list\` and \`check\` name holders and waiters
c looks before: holders → none
c looks before: waiters → none
a acquires → a lease
c looks meanwhile: holders → from a
c looks meanwhile: waiters → from b
token, mode and process of the holder → true, exclusive, true
c checks the token → true
c lists the name → it is there
a releases → released
b, who waited → a lease
c checks the old token → false
b releases → released

# \`close\` gives everything back
a acquires → a lease
b acquires another → a lease
a, who waited for that and closed → BackendError CLOSED
a: isHeld → false
a acquires, closed → BackendError CLOSED
b acquires what a had → a lease
b releases → released
b releases → released

# bad input is refused before anything is sent
a waits for -1 ms → RangeError
a acquires for 0 ms → RangeError
a acquires for ever → RangeError
a misspells wait → TypeError
a names a lock nothing → RangeError
a names a lock with a control character → RangeError
a comes with an aborted signal → Error: too late
requests for a lock → 0

# small values beside the locks: \`once\` and others
a pays once → receipt 1
b pays once → receipt 1
runs → 1

# a lease moves to another process
a acquires → a lease
a exports it → a ticket
a: state → released
b adopts it → a lease
the same token → true
c tries → undefined
c adopts it, too → LeaseLostError LEASE_LOST taken
b releases → released
`
