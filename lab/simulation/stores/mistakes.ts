/** Tables with one mistake each, which a run over the table must catch. */
import type { Claim } from 'holdfast/driver'
import type { table } from '../../../test/support/inside.js'

/** The fields of a request, whatever its verb. */
export interface CommandInput {
  readonly name?: string
  readonly attempt?: string
  readonly claim?: Claim
}

export interface Mistake {
  readonly is: string
  /** At least one of these rules of `holdfast/verify` must report it. */
  readonly breaks: readonly string[]
  /** A request as the server understands it. */
  before?(request: CommandInput): CommandInput | undefined
  /** The row after the mistake. */
  after?(before: table.Row, step: table.Step<unknown>): table.Step<unknown> | undefined
}

const grants = (before: table.Row, { row }: table.Step<unknown>) =>
  row.holds.filter((hold) => !before.holds.some((old) => old.attempt === hold.attempt))

/** Created again for every world, because some have state. */
export const mistakes: readonly (() => Mistake)[] = [
  () => ({
    is: 'lets anybody release',
    breaks: ['exclusion', 'read-write', 'permits'],
    // Like DEL without a check of the owner: also when the caller's own hold has expired and another client holds.
    after(before, step) {
      if (step.answer !== 'lost' || before.holds.length === 0) return undefined
      return { ...step, row: { ...step.row, holds: [] } }
    },
  }),
  () => ({
    is: 'gives a token twice',
    breaks: ['tokens'],
    after(before, step) {
      const fresh = grants(before, step)
      if (fresh.length === 0 || before.token === 0) return undefined
      const swap = (hold: table.Hold) =>
        fresh.includes(hold) ? { ...hold, token: before.token, upTo: before.token } : hold
      return changed({ ...step, row: { ...step.row, token: before.token } }, swap)
    },
  }),
  () => ({ is: 'counts from the answer', breaks: ['exclusion', 'read-write', 'permits'] }),
  () => ({
    is: 'lets go early',
    breaks: ['exclusion', 'read-write', 'permits'],
    // After half of the requested time.
    after(before, step) {
      const until = new Map(before.holds.map(({ attempt, expires }) => [attempt, expires]))
      return changed(step, (hold) =>
        until.get(hold.attempt) === hold.expires ? hold : { ...hold, expires: hold.expires - hold.ttl / 2 },
      )
    },
  }),
  () => ({ is: 'forgets to tell the next', breaks: ['liveness'] }),
  () => ({ is: 'lets go when the connection breaks', breaks: ['exclusion', 'read-write', 'permits'] }),
  () => ({
    is: 'serves the newest first',
    breaks: ['fifo'],
    after(before, step) {
      const { queue } = step.row
      const newest = queue.at(-1)
      if (newest === undefined || queue.length <= before.queue.length) return undefined
      return { ...step, row: { ...step.row, queue: [newest, ...queue.slice(0, -1)] } }
    },
  }),
  () => ({
    is: 'knows processes, not attempts',
    breaks: ['exclusion', 'read-write', 'permits'],
    before(request) {
      const of = (attempt: string) => attempt.slice(0, 4)
      const { attempt, claim } = request
      return {
        ...request,
        ...(attempt !== undefined && { attempt: of(attempt) }),
        ...(claim && { claim: { ...claim, attempt: of(claim.attempt) } }),
      }
    },
  }),
  () => {
    const readers = new Set<string>()
    return {
      is: 'keeps readers and writers apart from each other',
      breaks: ['read-write'],
      before(request) {
        const { claim, attempt = claim?.attempt ?? '' } = request
        if (claim?.mode.kind === 'shared') readers.add(attempt)
        if (!readers.has(attempt)) return undefined
        const name = `readers of ${claim?.name ?? request.name}`
        return { ...request, name, ...(claim && { claim: { ...claim, name } }) }
      },
    }
  },
  () => ({
    is: 'counts half a permit for one',
    breaks: ['permits'],
    before(request) {
      const { claim } = request
      if (claim?.mode.kind !== 'permits') return undefined
      return { ...request, claim: { ...claim, mode: { ...claim.mode, take: claim.mode.take / 2 } } }
    },
  }),
]

/** The same in a table that mints the token of every pass. */
export const mintingMistakes: readonly (() => Mistake)[] = [
  () => ({
    is: 'passes on the token it had',
    breaks: ['tokens'],
    after: (before, step) =>
      isMinted(step) ? { ...step, row: before, answer: before.holds[0]?.token } : undefined,
  }),
  () => ({
    is: 'lets go during a pass',
    breaks: ['exclusion', 'read-write'],
    after: (_, step) => (isMinted(step) ? { ...step, row: { ...step.row, holds: [] } } : undefined),
  }),
]

/** No other command replies with a number. */
const isMinted = ({ answer }: table.Step<unknown>) => typeof answer === 'number'

function changed(step: table.Step<unknown>, swap: (hold: table.Hold) => table.Hold): table.Step<unknown> {
  const holds = step.row.holds.map(swap)
  const of = (hold: table.Hold) => holds.find((one) => one.attempt === hold.attempt) ?? hold
  const answer = step.answer as { is?: string; hold?: table.Hold } | undefined
  const told = answer?.hold === undefined ? answer : { ...answer, hold: of(answer.hold) }
  return { ...step, row: { ...step.row, holds }, granted: step.granted.map(of), answer: told }
}
