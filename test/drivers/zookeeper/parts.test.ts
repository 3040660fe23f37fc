// Parts that need no server: the order of the queue, names, options, the encoding, the validity of a session.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { exclusive, permits, shared } from '../../../src/core/mode.js'
import { grantedCount } from '../../../src/drivers/kit/sessions/order.js'
import { zookeeper } from '../../../src/drivers/zookeeper/index.js'
import { decode, encode, entryName, parentPaths } from '../../../src/drivers/zookeeper/keys.js'
import type { ZookeeperOptions } from '../../../src/drivers/zookeeper/options.js'
import { compareSequence, evaluate, inOrder, parseEntry } from '../../../src/drivers/zookeeper/queue.js'
import { parseRecord } from '../../../src/drivers/zookeeper/record.js'
import {
  heartbeatTiming,
  maxLeaseTtl,
  pauseBefore,
  provenUntil,
  ReportedMessages,
  reportLag,
} from '../../../src/drivers/zookeeper/session/heartbeat-timing.js'
import { Reader, Writer } from '../../../src/drivers/zookeeper/session/jute.js'
import { toToken } from '../../../src/drivers/zookeeper/token.js'
import { leakCheck } from '../../support/leaks.js'

const id = 'a'.repeat(32)
const other = 'b'.repeat(32)
/** As Java's `%010d`. */
const digits = (number: number) =>
  number < 0 ? `-${String(-number).padStart(9, '0')}` : String(number).padStart(10, '0')
const place = (who: string, number: number, mode = exclusive) =>
  `${entryName(who, mode, 'curator')}${digits(number)}`

describe('the line', () => {
  test('reads every name that we, Curator and kazoo give to a place', () => {
    const curator = '_c_5d0b0b8e-1a3b-4c5d-8e9f-0123456789ab'
    for (const [node, number, mode, attempt] of [
      [`_c_${id}-lock-0000000012`, 12, exclusive, id],
      [`_c_${id}-shared-lock-0000000012`, 12, shared, id],
      [`_c_${id}-2of5-lock-0000000012`, 12, permits(2, 5), id],
      [`${id}__lock__0000000012`, 12, exclusive, id],
      [`${id}__rlock__0000000012`, 12, shared, id],
      [`${id}-2of5__lock__0000000012`, 12, permits(2, 5), id],
      [`_c_${id}-lock--2147483648`, -2147483648, exclusive, id],
      [`_c_${id}-lock--000000001`, -1, exclusive, id],
      [`${id}__lock__-2147483648`, -2147483648, exclusive, id],
      [`${curator}-lock-0000000003`, 3, exclusive, undefined],
      [`${curator}-__READ__0000000003`, 3, shared, undefined],
      [`${curator}-__WRIT__0000000003`, 3, exclusive, undefined],
      ['something-0000000003', 3, exclusive, undefined],
      ['something--000000003', -3, exclusive, undefined],
    ] as const) {
      const seen = parseEntry(node)
      assert.deepEqual(
        { number: seen?.number, mode: seen?.mode, attempt: seen?.attempt },
        { number, mode, attempt: attempt ?? node },
        node,
      )
    }
    for (const node of ['', 'locks', 'leases', 'x-123', `_c_${id}-lock-`])
      assert.equal(parseEntry(node), undefined)
  })

  test('continues in order when the numbers overflow', () => {
    const numbers = [2147483645, 2147483646, 2147483647, -2147483648, -2147483647]
    const nodes = numbers.map((number, i) => place(String(i).repeat(32), number))
    assert.deepEqual(
      inOrder([...nodes].sort()).map(({ number }) => number),
      numbers,
    )
    assert.deepEqual(evaluate(nodes, nodes[0] as string), { is: 'granted', behind: true })
    // One alone past the end stands behind those before it.
    const last = evaluate([...nodes.slice(0, 2), nodes[4] as string], nodes[4] as string)
    assert.equal(last.is === 'waiting' && last.node, nodes[1])
    assert.ok(compareSequence(-2147483648, 2147483647) > 0 && compareSequence(2147483647, -2147483648) < 0)
    assert.ok(compareSequence(0, -1) > 0)
  })

  test('refuses to order two entries with the same number, or numbers past the end', () => {
    assert.deepEqual(evaluate([place(id, 7), place(other, 7)], place(id, 7)), { is: 'tie' })
    // Past the end the server counts on for a moment, and goes back: which of the two is older cannot be told.
    const [last, further] = [place(id, 2147483647), place(other, -2147483648)]
    for (const own of [last, further]) assert.deepEqual(evaluate([last, further], own), { is: 'tie' })
    const before = place(other, 2147483646)
    assert.equal(evaluate([before, last], before).is, 'granted')
    assert.equal(evaluate([before, last], last).is, 'waiting')
  })

  test('grants nothing to a missing queue entry', () => {
    assert.deepEqual(evaluate([], place(id, 1)), { is: 'gone' })
    assert.deepEqual(evaluate([place(other, 1)], place(id, 1)), { is: 'gone' })
  })

  test('a writer watches the entry before it, a reader the last writer, a permit the entry that can admit it', () => {
    const nodes = [
      place('1'.repeat(32), 1, shared),
      place('2'.repeat(32), 2),
      place('3'.repeat(32), 3, shared),
      place('4'.repeat(32), 4, shared),
      place('5'.repeat(32), 5),
    ]
    const watched = (at: number, line = nodes) => {
      const verdict = evaluate(line, line[at] as string)
      return verdict.is === 'waiting' ? [line.indexOf(verdict.node ?? ''), verdict.position] : verdict.is
    }
    assert.deepEqual(
      [0, 1, 2, 3, 4].map((at) => watched(at)),
      ['granted', [0, 1], [1, 2], [1, 3], [3, 4]],
    )
    const weights = [2, 1, 2, 1].map((take, i) => place(String(i).repeat(32), i, permits(take, 3)))
    // The first that waits watches the children, the next the one before it.
    assert.deepEqual(
      [0, 1, 2, 3].map((at) => watched(at, weights)),
      ['granted', 'granted', [-1, 1], [2, 2]],
    )
    assert.equal(grantedCount(inOrder(weights)), 2)
  })

  test('refuses a semaphore with another limit, in either order', () => {
    const nodes = [place(id, 1, permits(1, 3)), place(other, 2, permits(1, 4))]
    assert.deepEqual(evaluate(nodes, nodes[1] as string), { is: 'limit', limit: 3 })
    assert.equal(evaluate(nodes, nodes[0] as string).is, 'granted')
  })

  test('lets one with the right limit wait for one with a wrong limit to leave', () => {
    const nodes = [1, 2, 3].map((n) => place(`${n}`.repeat(32), n, permits(1, n === 2 ? 4 : 3)))
    const verdict = evaluate(nodes, nodes[2] as string)
    assert.equal(verdict.is === 'waiting' && verdict.node, nodes[1])
    assert.equal(evaluate([nodes[0] as string, nodes[2] as string], nodes[2] as string).is, 'granted')
    assert.deepEqual(evaluate(nodes.slice(1), nodes[2] as string), { is: 'limit', limit: 4 })
  })
})

describe('names', () => {
  test('without special characters are the nodes that others know', () => {
    for (const name of ['foo', 'account:42', 'a b', 'é', '鎖', '...', 'x.y']) assert.equal(encode(name), name)
  })

  test('are distinguished and read back, whatever is in them', () => {
    const names = ['/', '%', '%2F', '.', '..', 'zookeeper', 'a/b', '🔒', '\u202e', '\uffff', '\ue000', 'a%b']
    const nodes = names.map(encode)
    assert.equal(new Set(nodes).size, names.length)
    assert.deepEqual(nodes.map(decode), names)
    for (const node of nodes) assert.doesNotMatch(node, /\/|^\.{1,2}$|[\ud800-\uf8ff\ufff0-\uffff]/)
    assert.equal(decode('100%'), undefined)
    assert.equal(decode('%41'), undefined)
  })

  test('know what may be missing above them', () => {
    assert.deepEqual(parentPaths('/a/b/c'), ['/a', '/a/b'])
    assert.deepEqual(parentPaths('/c'), [])
  })
})

describe('the encoding', () => {
  test('reads what it wrote, also beyond the first buffer', () => {
    const long = 'ä'.repeat(1000)
    const frame = new Writer()
      .int(-7)
      .long(2n ** 60n)
      .bool(true)
      .text(long)
      .bytes(Buffer.from([1, 2]))
      .texts(['a', ''])
      .frame()
    assert.equal(frame.readInt32BE(0), frame.length - 4)
    const from = new Reader(frame.subarray(4))
    assert.deepEqual(
      [from.int(), from.long(), from.bool(), from.text(), [...from.bytes()], from.texts(), from.left],
      [-7, 2n ** 60n, true, long, [1, 2], ['a', ''], 0],
    )
  })

  test('does not read beyond the end of a message', () => {
    assert.throws(() => new Reader(Buffer.from([0, 0, 0, 9, 1])).text(), RangeError)
    assert.throws(() => new Reader(Buffer.from([0, 0])).int(), RangeError)
  })
})

describe('the session', () => {
  test('is relied upon from a message that was answered one and a half ticks before another that the leader answered', () => {
    const reported = new ReportedMessages(reportLag(2_000))
    for (const sent of [0, 1_000, 2_000, 3_000]) reported.answered(sent, sent + 5)
    assert.deepEqual(
      [2_000, 3_004, 3_005, 4_500, 5_005, 9_000].map((sent) => reported.upTo(sent)),
      [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, 1_000, 2_000, 3_000],
    )
    assert.equal(provenUntil(3_000, 10_000), 3_000 + 10_000 * 0.99 - 2)
  })

  test('counts a message from its answer: it may have been on its way for long', () => {
    const reported = new ReportedMessages(reportLag(2_000))
    reported.answered(0, 10)
    reported.answered(1_000, 4_000)
    assert.equal(reported.upTo(5_000), 0)
    assert.equal(reported.upTo(7_000), 1_000)
  })

  test('says nothing on a new connection of what the server before was sent', () => {
    const reported = new ReportedMessages(reportLag(2_000))
    reported.answered(0, 10)
    reported.clear()
    assert.equal(reported.upTo(10_000), Number.NEGATIVE_INFINITY)
  })

  test('is worth at any moment what is reported before', () => {
    for (const [timeout, tick] of [
      [15_000, 3_000],
      [10_000, 500],
      [40_000, 2_000],
      [9_000, 3_000],
    ] as const) {
      const { heartbeatInterval } = heartbeatTiming(timeout, tick)
      const reported = new ReportedMessages(reportLag(tick))
      let proven = 0
      for (let sent = 0; sent < 5 * timeout; sent += heartbeatInterval) {
        // Right before the answer to this one.
        const left = provenUntil(proven, timeout) - sent
        assert.ok(left >= maxLeaseTtl(timeout, tick), `${left} ms of ${timeout} with ticks of ${tick}`)
        proven = Math.max(proven, reported.upTo(sent))
        reported.answered(sent, sent + 5)
      }
      assert.ok(maxLeaseTtl(timeout, tick) >= timeout / 3, `${maxLeaseTtl(timeout, tick)} of ${timeout}`)
    }
  })

  test('leaves time for two more servers after one has fallen silent', () => {
    for (const timeout of [1_000, 4_000, 10_000, 40_000]) {
      const tick = timeout / 10
      const { checkInterval, silenceTimeout, connectTimeout } = heartbeatTiming(timeout, tick)
      const noticed = silenceTimeout + 2 * checkInterval
      assert.ok(
        noticed + 2 * (connectTimeout + checkInterval) <= maxLeaseTtl(timeout, tick),
        `of ${timeout} ms`,
      )
    }
  })

  test('tries each server once before it pauses', () => {
    assert.deepEqual(
      [0, 1, 2].map((attempt) => pauseBefore(attempt, 3, 0.5)),
      [0, 0, 0],
    )
    assert.ok(pauseBefore(3, 3, 0.5) > 0 && pauseBefore(300, 3, 1) <= 1_000)
  })
})

test('a token beyond 2^53 is refused instead of rounded', () => {
  assert.equal(toToken(2n ** 53n - 1n), Number.MAX_SAFE_INTEGER)
  assert.throws(() => toToken(2n ** 53n), { code: 'BACKEND', message: /two million leaders/ })
})

test('the text that other clients wrote into their nodes is shown as their identity', () => {
  assert.deepEqual(parseRecord(Buffer.from('10.0.0.7')), { client: '10.0.0.7' })
  assert.deepEqual(parseRecord(Buffer.alloc(0)), {})
  assert.deepEqual(parseRecord(Buffer.from('{"attempt":7}')), { client: '{"attempt":7}' })
  assert.deepEqual(parseRecord(Buffer.from(JSON.stringify({ attempt: id, by: 'h:1', note: 'n' }))), {
    attempt: id,
    client: 'h:1',
    note: 'n',
  })
})

describe('options', () => {
  const refused: readonly [
    options: unknown,
    kind: typeof TypeError | typeof RangeError,
    complaint: RegExp,
  ][] = [
    [undefined, TypeError, /takes options/],
    [{}, TypeError, /servers must be/],
    [{ servers: [] }, TypeError, /servers must be/],
    [{ servers: 'h1:99999' }, RangeError, /port up to 65535, got "h1:99999"/],
    [{ servers: 'h1:2181/locks' }, RangeError, /host:port/],
    [{ servers: 'h', chroot: 'locks' }, RangeError, /absolute path/],
    [{ servers: 'h', chroot: '/a//b' }, RangeError, /absolute path/],
    [{ servers: 'h', chroot: '/zookeeper/x' }, RangeError, /outside \/zookeeper/],
    [{ servers: 'h', chroot: 7 }, TypeError, /chroot must be a path/],
    [{ servers: 'h', sessionTimeout: 10 }, RangeError, /from 200 to 600000, got 10/],
    [{ servers: 'h', sessionTimeout: '9' }, TypeError, /must be a number/],
    [{ servers: 'h', strategy: 'herd' }, RangeError, /line, simple, got "herd"/],
    [{ servers: 'h', names: 'x' }, RangeError, /curator, kazoo/],
    [{ servers: 'h', auth: { scheme: 'digest' } }, TypeError, /auth must be/],
    [{ servers: 'h', acl: 'creator' }, RangeError, /needs a login/],
    [{ servers: 'h', acl: [{ scheme: 'ip', id: '::1', permissions: 'x' }] }, TypeError, /letters cdrwa/],
  ]
  for (const [options, kind, complaint] of refused) {
    test(`${JSON.stringify(options)} are refused before any I/O`, () => {
      assert.throws(
        () => zookeeper(options as ZookeeperOptions),
        (error) => error instanceof kind && complaint.test(error.message),
      )
    })
  }

  test('with a wrong login do not show it', () => {
    const auth = { scheme: 7, credential: 'me:s3cret' } as never
    assert.throws(
      () => zookeeper({ servers: 'h', auth }),
      (error) => !String(error).includes('s3cret'),
    )
  })
})

after(leakCheck)
