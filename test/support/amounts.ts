// How much is tried at random in the tests. The files named here take their numbers from here and assert that they came to
// them; amounts.test.ts adds them up and holds docs/simulation.md to them.

/** Sequences of random commands or entries: how many properties there are, and how many sequences each of them gets. */
export const sequences = {
  /** Against what must hold of every row. */
  'drivers/memory/table-properties': { properties: 4, each: 25_000 },
  /** Real servers against the table. */
  'drivers/redis/differential': { properties: 4, each: 400 },
  'drivers/postgres/differential': { properties: 2, each: 150 },
  /** A real server against the simulated one. */
  'simulation/redis-twin': { properties: 1, each: 400 },
} as const

/**
 * Schedules under virtual time over stores that are sound: in `npm test`, and on top of them in the second tier. What the broken ones take
 * until they are found out is not counted.
 */
export const schedules = {
  first: {
    'simulation/memory': 20_000,
    'simulation/table': 6_000,
    'simulation/minting': 3_000,
    'simulation/redis': 1_000,
  },
  second: {
    'simulation/memory-more': 180_000,
    'simulation/table-more': 56_000,
    'simulation/minting-more': 30_000,
    'simulation/redis-more': 7_000,
  },
} as const
