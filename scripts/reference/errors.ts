// docs/reference/errors.md: every error class with its codes, from the docstrings; the HTTP status is what the guards' middleware answers.
import {
  AcquireTimeoutError,
  BackendError,
  DeadlockError,
  type ErrorCode,
  type HoldfastError,
  LatchGoneError,
  LeaseLostError,
  PoolClosedError,
  StaleTokenError,
  TooManyWaitersError,
  UnsupportedError,
  VersionConflictError,
} from 'holdfast'
import { rejections, toRejection } from '../../src/guard/rejection.js'
import { cell, code, page, table } from './markdown.js'
import type { Declared, Model } from './model.js'
import type { Say } from './words.js'

interface Advice {
  readonly sample: HoldfastError
  /** Where the middleware passes the error on. */
  readonly status?: number
  readonly remedy: string
}

export const advice: Readonly<Record<ErrorCode, Advice>> = {
  ACQUIRE_TIMEOUT: {
    sample: new AcquireTimeoutError('a', 1, undefined),
    remedy:
      'Try again later, or wait longer. Nothing was done, nothing is held. `holder` says who holds the lock.',
  },
  TOO_MANY_WAITERS: {
    sample: new TooManyWaitersError('a', 1),
    remedy: 'Shed load: refuse the request. Nothing was sent to the store.',
  },
  LATCH_GONE: {
    sample: new LatchGoneError('a'),
    status: 410,
    remedy: 'Ask the system of record whether the work was done; do not wait again for this latch.',
  },
  POOL_CLOSED: {
    sample: new PoolClosedError('a'),
    remedy: 'Stop: the pool is being drained. It grants nothing until somebody calls `open()`.',
  },
  LEASE_LOST: {
    sample: new LeaseLostError('a', 1, 'expired'),
    status: 500,
    remedy:
      'Stop the work; part of it may be done. Pass the token to the resource, so that it refuses late writes. Before a retry, read what the first attempt did.',
  },
  STALE_TOKEN: {
    sample: new StaleTokenError('a', 1),
    remedy: 'Stop: a later holder has written. Never retry with this token; acquire anew and read again.',
  },
  VERSION_CONFLICT: {
    sample: new VersionConflictError('a', 1),
    status: 409,
    remedy: 'Try again later. Where this happens often, take a lock.',
  },
  DEADLOCK: {
    sample: new DeadlockError('a', ''),
    status: 500,
    remedy:
      'Fix the program: acquire locks in one order, or all at once with `locks.all()`; `reentrant` enters again what is already held.',
  },
  UNSUPPORTED: {
    sample: new UnsupportedError('a', '', ''),
    status: 500,
    remedy: 'Fix the program: the message names what the driver lacks and what to use instead.',
  },
  BACKEND: {
    sample: new BackendError('a', ''),
    remedy:
      'Read `message`: the store refused (privileges, configuration, quarantine) or failed. The error does not say who holds the lock.',
  },
  UNAVAILABLE: {
    sample: new BackendError('a', '', { tried: 1 }),
    remedy: 'Try again later: the store did not reply in time. The error does not say who holds the lock.',
  },
  CLOSED: {
    sample: new BackendError('a', '', { closed: true }),
    remedy: 'Acquire no locks after `locks.close()`: the process is ending, or closed them too early.',
  },
}

const introduction = `Every error has a \`code\`, which is stable. \`instanceof\` also works between two copies of the package. \`message\` may name hosts and processes;
\`publicMessage\` does not, and is meant for clients. Bad arguments are \`TypeError\` or \`RangeError\`, thrown before any I/O (500: a bug). An aborted
wait rejects with \`signal.reason\`. In the tables, **answered** means that the middlewares of [guards](../guard.md) answer the error with this status; the others are advice.`

export function errorsPage(models: readonly Model[], say: Say): string {
  const rows = Object.entries(advice).map(([name, { sample, status, remedy }]) => {
    const answered = toRejection(sample)?.status
    const http = answered === undefined ? `${status}` : say('{0}, answered', `${answered}`)
    return [code(name), `[\`${sample.name}\`](#${sample.name.toLowerCase()})`, http, say(remedy)]
  })
  return page(
    say('Errors'),
    say(introduction),
    table([say('code'), say('class'), say('HTTP status'), say('what to do')], rows),
    say(
      'An `ACQUIRE_TIMEOUT` whose `cause` is a `BackendError` is answered with 503: the store was failing during the wait.',
    ),
    ...models.flatMap((model) => listClasses(model, models, say)),
    ...gateAnswers(say),
  )
}

export function isError({ name, class: isClass }: Declared): boolean {
  return isClass && name.endsWith('Error')
}

const seen = 'holdfast'

function listClasses({ specifier, declared }: Model, models: readonly Model[], say: Say): string[] {
  const common = models.find((model) => model.specifier === seen)?.declared.map(({ name }) => name) ?? []
  const own = declared.filter(isError).filter(({ name }) => specifier === seen || !common.includes(name))
  return own.length === 0 ? [] : [`## ${specifier}`, ...own.map((one) => section(one, say))]
}

function section({ name, doc, members }: Declared, say: Say): string {
  const fields = members
    .filter((member) => !['name', 'codes'].includes(member.name))
    .filter((member) => member.name !== 'publicMessage' || name === 'HoldfastError')
    .map((member) => [code(member.name), cell(code(member.type)), cell(say(member.doc.text))])
  const listed = fields.length === 0 ? [] : [table([say('field'), say('type'), say('what')], fields)]
  return [`### ${name}`, cell(say(doc.text)), ...listed].filter((part) => part !== '').join('\n\n')
}

/** What `holdfast/guard` answers over HTTP without an error of a handler. */
function gateAnswers(say: Say): string[] {
  const { bad, wrong, missing, tooLong, slow, busy, late, outage } = rejections
  const all = [bad('…'), wrong('…'), missing('…'), tooLong(0), slow(), busy(), late(), outage()]
  const rows = all.map(({ status, body }) => [
    `${status}`,
    code(body.error),
    cell(body.message.replace(' 0 ', ' … ')),
  ])
  return [
    `## ${say('Answers of the guards over HTTP')}`,
    say(
      'What the middlewares of `holdfast/guard` answer by themselves, before or in place of the handler; `error` and `message` of the JSON body.',
    ),
    table([say('status'), '`error`', '`message`'], rows),
  ]
}
