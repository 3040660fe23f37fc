/**
 * How many local holders may come before a waiter of another process, once the driver has heard of it: the 16 that the core allows, and
 * as many again where a store keeps no strict order.
 */
export const passLimit = 32
