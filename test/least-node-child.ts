// What the README shows, for the least Node that we say we run on. Prints one line for each thing that worked.
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'
import { memory } from 'holdfast/memory'

const [folder = '', ...specifiers] = process.argv.slice(2)
for (const specifier of specifiers) {
  await import(specifier)
  console.log(specifier)
}

{
  await using locks = createLocks(local({ directory: folder }))
  await locks.mutex('account:42').run(async (lease) => lease.assertHeld())
  await using lease = await locks.mutex('account:42').acquire({ wait: 5_000 })
  if ((await locks.mutex('account:42').tryAcquire()) === undefined && lease.isHeld) console.log('lock')
}
{
  const locks = createLocks(memory())
  const both = await locks.all([locks.mutex('a'), locks.mutex('b')]).acquire()
  if (!both.signal.aborted && (await both.release()) === 'released') console.log('all')
  const barrier = locks.barrier('phase', 2)
  const inside = await Promise.all([barrier.enter({ signal: new AbortController().signal }), barrier.enter()])
  await Promise.all(inside.map((one) => one.leave()))
  console.log('barrier')
  const term = await locks.election('scheduler').campaign('me')
  await term.resign()
  console.log(await locks.once('order', async () => 'once'))
  await locks.close()
}
