import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'
import { telemetry } from 'holdfast/otel'
import { leakCheck } from '../support/leaks.js'
import { startSdk } from './support/sdk.js'

after(leakCheck)

test('an acquisition and its hold are spans below that of their caller, across a hand-over, too', async () => {
  await using sdk = startSdk()
  await using locks = createLocks(memory())
  const { observe, stop } = telemetry(sdk.api, { metrics: false, group: () => 'jobs' })
  observe(locks)
  const tracer = sdk.api.trace.getTracer('test')
  const inSpan = <R>(name: string, work: () => Promise<R>) =>
    tracer.startActiveSpan(name, async (span) => {
      try {
        return await work()
      } finally {
        span.end()
      }
    })
  const first = await inSpan('first caller', () => locks.mutex('m').acquire())
  const second = inSpan('second caller', async () => (await locks.mutex('m').acquire()).release())
  await inSpan('releaser', () => first.release())
  await second

  const spans = sdk.spans.getFinishedSpans()
  const named = (name: string) => spans.filter((span) => span.name === name)
  const idOf = (name: string) => named(name)[0]?.spanContext().spanId
  const below = (parent: string) => (span: (typeof spans)[number]) =>
    span.parentSpanContext?.spanId === idOf(parent)
  const [acquire1, acquire2] = ['first caller', 'second caller'].map((one) =>
    named('acquire').find(below(one)),
  )
  const [hold1, hold2] = ['first caller', 'second caller'].map((one) => named('hold').find(below(one)))
  assert.ok(acquire1 && acquire2 && hold1 && hold2, 'each below its own caller, none below the releaser')
  assert.equal(spans.length, 7)
  const links = (span: typeof hold1) => span?.links.map(({ context }) => context.spanId)
  assert.deepEqual(links(hold1), [acquire1.spanContext().spanId])
  assert.deepEqual(links(hold2), [acquire2.spanContext().spanId, hold1.spanContext().spanId])
  assert.equal(hold2.attributes['holdfast.handed_off'], true)
  assert.equal(hold2.attributes['holdfast.lock.group'], 'jobs')
  assert.equal(hold2.attributes['holdfast.lock.name'], undefined)
  assert.equal(acquire2.attributes['holdfast.outcome'], 'granted')
  stop()
})

test('a wait that times out is an error, one that is aborted is none, and a lost lease is one', async () => {
  await using sdk = startSdk()
  await using locks = createLocks(memory())
  const { observe, stop } = telemetry(sdk.api, { names: true })
  observe(locks)
  const lease = await locks.mutex('m').acquire({ note: 'x' })
  await assert.rejects(locks.mutex('m').acquire({ wait: 5 }))
  const signal = AbortSignal.abort()
  await assert.rejects(locks.mutex('m').acquire({ signal }))
  const gone = new AbortController()
  const aborted = locks.mutex('m').acquire({ signal: gone.signal })
  gone.abort()
  await assert.rejects(aborted)
  await locks.forceRelease('m')
  assert.equal(await lease.release(), 'lost')
  const told = sdk.spans
    .getFinishedSpans()
    .map(({ name, status, attributes }) => [
      name,
      status.code === sdk.api.SpanStatusCode.ERROR,
      attributes['holdfast.outcome'] ?? attributes['holdfast.cause'],
      attributes['error.type'],
    ])
  assert.deepEqual(told, [
    ['acquire', false, 'granted', undefined],
    ['acquire', true, 'timeout', 'ACQUIRE_TIMEOUT'],
    ['acquire', false, 'aborted', undefined],
    ['hold', true, 'revoked', undefined],
  ])
  assert.equal(sdk.spans.getFinishedSpans()[0]?.attributes['holdfast.lock.name'], 'm')
  stop()
})

test('stopping ends the spans that are open', async () => {
  await using sdk = startSdk()
  await using locks = createLocks(memory())
  const { observe, stop } = telemetry(sdk.api)
  observe(locks)
  const lease = await locks.mutex('m').acquire()
  stop()
  assert.deepEqual(
    sdk.spans.getFinishedSpans().map(({ name }) => name),
    ['acquire', 'hold'],
  )
  await lease.release()
  assert.equal(sdk.spans.getFinishedSpans().length, 2)
})
