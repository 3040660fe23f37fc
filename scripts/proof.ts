// The whole proof by itself; `npm run test:all` has it among thousands of other tests, `npm test` a part of it.
//
//   npm run proof
//
// Random sequences, simulated schedules, real servers under faults, and broken stores and locks that must be found out.
// What there must be of each is asserted by these files themselves and by test/amounts.test.ts.
export const proof: readonly string[] = [
  'test/amounts',
  'test/drivers/memory/table-properties',
  'test/drivers/postgres/differential',
  'test/drivers/redis/differential',
  'test/lab/canaries',
  'test/lab/databases',
  'test/lab/live',
  'test/simulation/',
]

// Imported by a test it is only the list.
if (process.argv[1]?.endsWith('proof.js') === true) {
  process.argv.splice(2, process.argv.length, ...proof)
  await import('./test.js')
}
