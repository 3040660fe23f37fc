/**
 * Maximum number of local holders ahead of a waiter in another process, once the driver has been notified of it: the 16 that the core
 * allows, and as many again if a store keeps no strict order.
 */
export const passLimit = 32
