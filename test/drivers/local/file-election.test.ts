import '../../support/background.js'
import assert from 'node:assert/strict'
import { readFileSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { currentGeneration, newSocketName, publish } from '../../../src/drivers/local/file-election.js'
import { thisProcess } from '../../../src/drivers/local/processes.js'
import { leakCheck } from '../../support/leaks.js'
import { endAll, freshDirectory } from './processes.js'

const here = thisProcess()

test('a broker records its own end, not that of another whose file has its name by then', () => {
  const directory = freshDirectory()
  const old = publish(directory, 0, newSocketName(), here)
  assert.equal(old?.isCurrent(), true)
  unlinkSync(join(directory, 'broker-1'))
  const socket = newSocketName()
  const next = publish(directory, 0, socket, here)
  assert.deepEqual([old?.isCurrent(), next?.isCurrent()], [false, true])
  old?.retire()
  assert.equal(currentGeneration(directory).socket, socket)
  const length = readFileSync(join(directory, 'broker-1')).length
  next?.retire()
  assert.equal(currentGeneration(directory).socket, '')
  assert.equal(readFileSync(join(directory, 'broker-1')).length, length)
})

test('a candidate that slept through an election publishes nothing', () => {
  const directory = freshDirectory()
  publish(directory, 0, newSocketName(), here)?.retire()
  assert.equal(publish(directory, 0, newSocketName(), here), undefined)
  publish(directory, 1, newSocketName(), here)?.retire()
  unlinkSync(join(directory, 'broker-1'))
  assert.equal(publish(directory, 0, newSocketName(), here), undefined)
  assert.equal(currentGeneration(directory).number, 2)
})

after(endAll)
after(leakCheck)
