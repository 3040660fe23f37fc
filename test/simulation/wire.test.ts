// The simulated network keeps the order of each connection, as TCP does: whatever is drawn, no message overtakes another.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { makeProcess } from '../../lab/simulation/process.js'
import { makeNetwork, type Network, type Remote } from '../../lab/simulation/wire.js'
import { makeWorld, type World } from '../../lab/simulation/world.js'
import { leakCheck } from '../support/leaks.js'

interface Heard {
  /** What the server heard, by the connection that it came by. */
  readonly up: Map<Remote<number>, number[]>
  /** What the process heard, by its connection. */
  readonly down: number[][]
}

/** A process says the numbers from 0, and the server says each one back. */
async function converse(seed: number, disturb: (world: World, network: Network<number, number>) => void) {
  const world = makeWorld(seed)
  const heard: Heard = { up: new Map(), down: [] }
  const network = makeNetwork<number, number>(world, {
    onMessage(from, message) {
      const before = heard.up.get(from)
      if (before === undefined) heard.up.set(from, [message])
      else before.push(message)
      from.send(message)
    },
    left: () => undefined,
  })
  const process = makeProcess(world, 0, 1, seed)
  let said = 0
  const wire = network.connect(process, {
    heard: (message) => heard.down.at(-1)?.push(message),
    noticed(up) {
      if (up) heard.down.push([])
    },
  })
  // Some at once, as a pipeline sends them, the others a little later.
  const say = () => {
    for (const end = said + 5; wire.up && said < end; said++) wire.send(said)
    process.clock.at(process.clock.now() + 1, say)
  }
  say()
  disturb(world, network)
  process.hears(60, () => process.stall(20))
  await world.run(() => false, 1_000)
  return heard
}

const ascending = (numbers: readonly number[]) =>
  numbers.every((n, i) => i === 0 || n > (numbers[i - 1] as number))
const gapless = (numbers: readonly number[]) =>
  numbers.every((n, i) => i === 0 || n === (numbers[i - 1] as number) + 1)

test('commands and replies of a connection arrive in the order in which they were sent', async () => {
  for (let seed = 0; seed < 20; seed++) {
    const { up, down } = await converse(seed, (world, network) => {
      world.at(100, () => network.slow(200, 100))
      world.at(150, () => network.freeze(50))
    })
    const [commands = []] = [...up.values()]
    assert.ok(commands.length > 1_000, `${commands.length}`)
    assert.ok(ascending(commands), `seed ${seed}: commands ${commands}`)
    assert.ok(ascending(down[0] ?? []), `seed ${seed}: replies ${down[0]}`)
    assert.ok((down[0]?.length ?? 0) > 1_000)
  }
})

test('of a connection that breaks arrives what was sent first, and then nothing any more', async () => {
  let connections = 0
  for (let seed = 0; seed < 20; seed++) {
    const { up, down } = await converse(seed, (world, network) => {
      for (const at of [100, 300, 500, 700]) world.at(at, () => network.cut())
      world.at(650, () => network.slow(200, 100))
    })
    for (const commands of [...up.values(), ...down])
      assert.ok(gapless(commands), `seed ${seed}: ${commands}`)
    connections += up.size
  }
  assert.ok(connections > 60, `${connections}`)
})

after(leakCheck)
