// What is sent to a terminal, and what is not.
import assert from 'node:assert/strict'
import { Writable } from 'node:stream'
import { after, test } from 'node:test'
import { Frames } from '../../../src/cli/top/frames.js'
import { leakCheck } from '../../support/leaks.js'
import { until } from '../../support/until.js'

/** A line that takes one piece, and the next one when the test says so. */
function slowLine() {
  const taken: string[] = []
  let ready: (() => void) | undefined
  const output = new Writable({
    decodeStrings: false,
    write(text: string, _encoding, callback) {
      taken.push(text)
      ready = callback
    },
  })
  const goOn = () => {
    const call = ready
    ready = undefined
    call?.()
  }
  return { output, taken, goOn }
}

test('a slow line gets the newest frame, not all of them, and none is drawn for nothing', async () => {
  const { output, taken, goOn } = slowLine()
  const frames = new Frames(output)
  let drawn = 0
  const show = (text: string) =>
    frames.show(() => {
      drawn++
      return ['title', text]
    })
  show('0')
  await until(() => taken.length)
  for (let i = 1; i <= 1_000; i++) show(String(i))
  goOn()
  await until(() => taken.length === 2)
  assert.deepEqual(taken, ['\x1b[1;1H\x1b[2Ktitle\x1b[2;1H\x1b[2K0', '\x1b[2;1H\x1b[2K1000'])
  assert.equal(drawn, 2)
  assert.ok(output.writableLength < 100)
  goOn()
  frames.clear()
  show('1000')
  await until(() => taken.length === 3)
  assert.equal(taken[2], '\x1b[2J\x1b[1;1H\x1b[2Ktitle\x1b[2;1H\x1b[2K1000')
  show('never')
  const ended = frames.end('good-bye')
  goOn()
  await until(() => taken.length === 4)
  assert.equal(taken[3], 'good-bye')
  goOn()
  await ended
  assert.equal(drawn, 3)
})

test('a line that takes nothing any more does not keep the end waiting', async () => {
  const { output, taken } = slowLine()
  const frames = new Frames(output)
  frames.show(() => ['title'])
  await until(() => taken.length)
  await frames.end('good-bye')
  assert.equal(taken.length, 1)
})

after(leakCheck)
