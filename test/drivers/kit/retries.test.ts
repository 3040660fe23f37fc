// What must not be left undone, on a stopped clock: when it is tried again, and what `close()` does for it.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Retries } from '../../../src/drivers/kit/retries.js'
import { type FakeClock, fakeClock, settle } from '../../support/fake-clock.js'
import { leakCheck } from '../../support/leaks.js'

const broken = new Error('broken')

function given(worthwhile: (error: unknown) => boolean = () => true) {
  const clock = fakeClock()
  const retries = new Retries(clock, worthwhile)
  const tries: { fail(error?: Error): Promise<void>; succeed(): Promise<void> }[] = []
  const work = () =>
    new Promise<void>((resolve, reject) => {
      tries.push({
        async fail(error = broken) {
          reject(error)
          await settle()
        },
        async succeed() {
          resolve()
          await settle()
        },
      })
    })
  return { clock, retries, tries, work }
}

/** Whether it has settled. */
function watch(promise: Promise<unknown>): () => boolean {
  let settled = false
  void promise.finally(() => {
    settled = true
  })
  return () => settled
}

const inTenSeconds = (clock: FakeClock) => clock.now() + 10_000

test('a failed release is retried until it succeeds; only the first try is awaited', async () => {
  const { clock, retries, tries, work } = given()
  const tried = watch(retries.try(work, inTenSeconds(clock)))
  assert.equal(tried(), false)
  await tries[0]?.fail()
  assert.equal(tried(), true)
  await clock.advance(250)
  await tries[1]?.fail()
  await clock.advance(250)
  await tries[2]?.succeed()
  await clock.advance(20_000)
  assert.equal(tries.length, 3)
  assert.equal(clock.pending, 0)
})

test('a release that can never succeed, or is no longer useful, is not retried', async () => {
  const { clock, retries, tries, work } = given((error) => error === broken)
  void retries.try(work, inTenSeconds(clock))
  await tries[0]?.fail(new Error('refused'))
  void retries.try(work, clock.now() + 100)
  await clock.advance(100)
  await tries[1]?.fail()
  await clock.advance(20_000)
  assert.equal(tries.length, 2)
})

test('close() tries at once what waits for its next try, and a moment later once more what fails', async () => {
  const { clock, retries, tries, work } = given()
  void retries.try(work, inTenSeconds(clock))
  retries.later(60_000, work, inTenSeconds(clock))
  await tries[0]?.fail()
  const closed = watch(retries.close(2_000))
  assert.equal(tries.length, 3)
  await tries[1]?.fail()
  await tries[2]?.succeed()
  await clock.advance(249)
  assert.equal(tries.length, 3)
  await clock.advance(1)
  assert.equal(tries.length, 4)
  assert.equal(closed(), false)
  await tries[3]?.fail()
  assert.equal(closed(), true)
  await clock.advance(60_000)
  assert.equal(tries.length, 4)
  assert.equal(clock.pending, 0)
})

test('a release in flight at close(), or a later one, is retried once if it fails', async () => {
  const { clock, retries, tries, work } = given()
  void retries.try(work, inTenSeconds(clock))
  const closed = watch(retries.close(2_000))
  void retries.try(work, inTenSeconds(clock))
  await tries[0]?.fail()
  await tries[1]?.fail()
  await clock.advance(250)
  assert.equal(tries.length, 4)
  await tries[2]?.fail()
  assert.equal(closed(), false)
  await tries[3]?.fail()
  assert.equal(closed(), true)
  assert.equal(clock.pending, 0)
})

test('close() waits no longer than it is told to', async () => {
  const { clock, retries, tries, work } = given()
  void retries.try(work, inTenSeconds(clock))
  const closed = watch(retries.close(2_000))
  await clock.advance(1_999)
  assert.equal(closed(), false)
  await clock.advance(1)
  assert.equal(closed(), true)
  await tries[0]?.succeed()
  assert.equal(clock.pending, 0)
})

after(leakCheck)
