// A child process that awaits what it asks of a store that has died, or has never answered, and is kept alive by nothing else. It ends with 0
// once everything was answered, one way or the other; with the number of the step otherwise.
import { once } from 'node:events'
import { createLocks, type DriverFactory } from 'holdfast'
import type { ChildClient } from 'holdfast/conformance'

export interface EndsTask {
  readonly childClient: ChildClient
  readonly name: string
  readonly steps: readonly Step[]
  /** The store does not answer from the start: nothing is held. */
  readonly silent?: true
}

export type Step = 'wait' | 'inspect' | 'try' | 'extend' | 'release' | 'close'

async function main({ childClient, name, steps, silent }: EndsTask): Promise<void> {
  const { module, export: exported, args = [] } = childClient
  const make: (...args: unknown[]) => DriverFactory | Promise<DriverFactory> = (await import(module))[
    exported
  ]
  const locks = createLocks(await make(...args))
  const held = (lock: string) => (silent ? undefined : locks.mutex(lock).acquire({ ttl: 6_000 }))
  const [lease, other] = [await held(name), await held(`${name} too`)]
  process.send?.('held')
  await once(process, 'message')
  process.disconnect()
  const asked: Readonly<Record<Step, () => Promise<unknown>>> = {
    wait: () => locks.mutex(`${name} three`).acquire({ wait: 1_000 }),
    inspect: () => locks.inspect(name),
    try: () => locks.mutex(`${name} four`).tryAcquire(),
    extend: async () => lease?.extend(),
    release: async () => other?.release(),
    close: () => locks.close(),
  }
  for (const [i, step] of steps.entries()) {
    process.exitCode = 10 + i
    await asked[step]().catch(() => undefined)
  }
  process.exit(0)
}

void main(JSON.parse(process.argv[2] ?? ''))
