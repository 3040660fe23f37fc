/**
 * How many local holders may come before a waiter of another process: the 16 that the core allows, one that holds
 * when the wait begins, and some that pass before a driver has heard of the waiter.
 */
export const passLimit = 32
