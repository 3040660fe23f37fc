// A child process that awaits what it asks of a store that has died, and is kept alive by nothing else. It ends with 0 once everything
// was answered, one way or the other; with the number of the step otherwise.
import { once } from 'node:events'
import { createLocks, type DriverFactory } from 'holdfast'
import type { ChildClient } from 'holdfast/conformance'

export interface EndsTask {
  readonly childClient: ChildClient
  readonly name: string
  readonly steps: readonly Step[]
}

export type Step = 'wait' | 'inspect' | 'try' | 'extend' | 'release' | 'close'

async function main({ childClient, name, steps }: EndsTask): Promise<void> {
  const { module, export: exported, args = [] } = childClient
  const make: (...args: unknown[]) => DriverFactory | Promise<DriverFactory> = (await import(module))[
    exported
  ]
  const locks = createLocks(await make(...args))
  const lease = await locks.mutex(name).acquire({ ttl: 6_000 })
  const other = locks.mutex(`${name} too`)
  const holds = await other.acquire({ ttl: 6_000 })
  process.send?.('held')
  await once(process, 'message')
  process.disconnect()
  const asked: Readonly<Record<Step, () => Promise<unknown>>> = {
    wait: () => locks.mutex(`${name} three`).acquire({ wait: 1_000 }),
    inspect: () => locks.inspect(name),
    try: () => locks.mutex(`${name} four`).tryAcquire(),
    extend: () => lease.extend(),
    release: () => holds.release(),
    close: () => locks.close(),
  }
  for (const [i, step] of steps.entries()) {
    process.exitCode = 10 + i
    await asked[step]().catch(() => undefined)
  }
  process.exit(0)
}

void main(JSON.parse(process.argv[2] ?? ''))
