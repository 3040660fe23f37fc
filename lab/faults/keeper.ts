/** A process that takes one lock again and again, with `linger`, then another one: what stays with it must meet the faults, and others that want it. */
import type { Chance } from './chance.js'
import { someLinger } from './take.js'
import type { Subject, Task } from './workload.js'

export async function keepTaking(
  subjects: readonly Subject[],
  { ttl, brisk }: Pick<Task, 'ttl' | 'brisk'>,
  random: Chance,
  isOver: () => boolean,
  take: (subject: Subject, random: Chance, linger: number) => Promise<void>,
): Promise<void> {
  while (!isOver()) {
    const subject = random.pick(subjects)
    const linger = someLinger(random, ttl)
    for (let left = 1 + random.below(24); left > 0 && !isOver(); left--) {
      await take(subject, random, linger)
      await pauseBetween(random, ttl, brisk)
    }
    await pause(random.between(0, 0.3) * ttl)
  }
}

/** Mostly as short as can be; now and then so long that the lock goes back, or its deadline passes if nobody renews it. */
async function pauseBetween(random: Chance, ttl: number, brisk: boolean): Promise<void> {
  const way = random.next()
  if (way < (brisk ? 0.98 : 0.5)) await new Promise(setImmediate)
  else if (way < 0.93) await pause(random.between(0, 15))
  else await pause(random.between(0.2, 1.5) * ttl)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
