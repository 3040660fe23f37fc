/**
 * Which models are checked, with which bounds, and the expected results. The head of each model explains its defines;
 * bounds that are not given are the model's own.
 *
 * A run that holds has visited every reachable state, and their number is part of the expectation: a model that got
 * stuck, or became smaller by mistake, would hold as well. (Counted on 2026-11-21 with Spin 6.5.2.)
 * Long because it is one table.
 */
export type Model =
  | 'handoff'
  | 'passing'
  | 'caching'
  | 'broker'
  | 'sql'
  | 'redlock'
  | 'session'
  | 'quarantine'
  | 'slots'

/** `quick`: part of `npm run test:all`. `full`: `npm run models`. `soak`: only when asked for. */
export type Effort = 'quick' | 'full' | 'soak'

export interface Row {
  readonly model: Model
  readonly defines: readonly string[]
  /** `safety`: the assertions and the absence of deadlocks. `served`: nobody waits for ever, under weak fairness. */
  readonly asks: 'safety' | 'served'
  /** `holds`, the property that must break, or `deadlock`. */
  readonly expected: string
  readonly effort: Effort
  /** Exact for a run that holds, otherwise approximate. */
  readonly states: number
  /** Which path to the broken property is reported: the shortest, or the first where the shortest takes long to find. */
  readonly way: 'shortest' | 'first'
}

function holds(model: Model, effort: Effort, asks: Row['asks'], defines: string, states: number): Row {
  return { model, defines: words(defines), asks, expected: 'holds', effort, states, way: 'first' }
}

/** A wrong design. `defines` begins with the mistake; its bounds are the smallest that show it. */
function breaks(model: Model, expected: string, defines: string, way: Row['way'] = 'shortest'): Row {
  const asks = expected === 'served' ? 'served' : 'safety'
  return { model, defines: words(defines), asks, expected, effort: 'quick', states: 100_000, way }
}

function words(text: string): string[] {
  return text.split(' ').filter((word) => word !== '')
}

const noFaults = 'FAULTS=0 CRASHES=0 EXPIRIES=0'

const handoff: readonly Row[] = [
  holds('handoff', 'quick', 'safety', '', 156_441),
  holds('handoff', 'quick', 'served', '', 175_194),
  holds('handoff', 'quick', 'safety', 'READERS_WRITERS FAULTS=0', 581_011),
  holds('handoff', 'quick', 'safety', 'PERMITS FAULTS=0 CRASHES=0', 338_728),
  holds('handoff', 'quick', 'safety', 'N=2 K=2 STRAYS=1 EXPIRIES=0', 91_280),
  holds('handoff', 'full', 'safety', 'N=2 K=2 STRAYS=1', 518_423),
  holds('handoff', 'full', 'safety', 'FAULTS=2 CRASHES=2 EXPIRIES=2', 1_523_518),
  holds('handoff', 'full', 'safety', 'STRAYS=1', 582_227),
  holds('handoff', 'full', 'safety', 'READERS_WRITERS', 2_999_498),
  holds('handoff', 'full', 'served', 'READERS_WRITERS FAULTS=0', 644_045),
  holds('handoff', 'full', 'safety', 'READERS_WRITERS N=2 K=2', 2_662_750),
  holds('handoff', 'full', 'safety', 'PERMITS', 4_705_731),
  holds('handoff', 'full', 'served', 'PERMITS FAULTS=0', 1_077_356),
  holds('handoff', 'soak', 'safety', 'PERMITS STRAYS=1 FAULTS=0', 3_481_586),
  holds('handoff', 'quick', 'safety', 'FORGERIES=1 EXPIRIES=0', 53_141),
  holds('handoff', 'full', 'safety', 'FORGERIES=2 N=2 K=2', 297_715),
  holds('handoff', 'full', 'served', 'FORGERIES=1 EXPIRIES=0', 59_592),
  holds('handoff', 'soak', 'safety', 'N=4', 20_000_000),
  holds('handoff', 'soak', 'safety', 'READERS_WRITERS STRAYS=1', 20_000_000),
  holds('handoff', 'soak', 'served', 'READERS_WRITERS', 20_000_000),
  holds('handoff', 'soak', 'served', 'PERMITS', 20_000_000),
  breaks('handoff', 'claims_compatible', `RECEIPT_CLOCK FAULTS=0 CRASHES=0`),
  breaks('handoff', 'claims_compatible', `BELIEVES_PUSH FORGERIES=1 N=2 ${noFaults}`),
  breaks('handoff', 'claims_compatible', `DECLINES FORGERIES=1 ${noFaults}`),
  breaks('handoff', 'claims_compatible', `CLAIM_UNTIL_REPLY N=2 ${noFaults}`),
  breaks('handoff', 'claims_compatible', `LATE_DOWNGRADE READERS_WRITERS N=2 ${noFaults}`),
  breaks('handoff', 'claims_compatible', `OWNER_IS_CLIENT N=2 K=2 STRAYS=1 ${noFaults}`),
  breaks('handoff', 'claims_compatible', `PERMITS_BY_COUNT PERMITS STRAYS=1 ${noFaults}`),
  breaks('handoff', 'write_in_order', 'NO_GUARD N=2 FAULTS=0 CRASHES=0'),
  breaks('handoff', 'valid_write_accepted', `COUNTER_LOST ${noFaults}`),
  breaks('handoff', 'nobody_passed_over', 'BARGING READERS_WRITERS FAULTS=0 CRASHES=0 EXPIRIES=0'),
  breaks('handoff', 'ended_stays_ended', `NO_TOMBSTONE N=2 STRAYS=1 ${noFaults}`),
  breaks('handoff', 'deadlock', 'NO_POLL N=2 CRASHES=0 EXPIRIES=0'),
  breaks('handoff', 'served', 'POLL_KEEPS_PLACE N=2 CRASHES=0 EXPIRIES=0'),
  breaks('handoff', 'served', 'QUEUES_AGAIN N=2 CRASHES=0 EXPIRIES=0'),
  breaks('handoff', 'served', 'NO_EXPIRY N=2 FAULTS=0 EXPIRIES=0'),
]

const passing: readonly Row[] = [
  holds('passing', 'quick', 'safety', '', 351_228),
  holds('passing', 'quick', 'served', '', 485_437),
  holds('passing', 'quick', 'safety', `HERE=2 THERE=2 FAULTS=0`, 125_773),
  holds('passing', 'full', 'safety', 'CRASHES=1', 1_410_258),
  holds('passing', 'full', 'served', 'CRASHES=1', 1_956_157),
  holds('passing', 'full', 'safety', 'EXPIRIES=2', 2_885_528),
  holds('passing', 'full', 'safety', 'HERE=2 THERE=2', 468_353),
  holds('passing', 'soak', 'safety', 'HERE=2 THERE=2 CRASHES=1', 2_463_545),
  holds('passing', 'soak', 'safety', 'HERE=4 PASSES=2 RESERVE=3', 1_125_142),
  breaks('passing', 'claims_compatible', 'PASS_AND_RELEASE HERE=2 FAULTS=0 EXPIRIES=0 CANCELS=0'),
  breaks('passing', 'token_grows', 'PASS_UNPROVEN HERE=2 FAULTS=0 CANCELS=0'),
  breaks('passing', 'token_grows', `FORGETS_PASSES HERE=2 FAULTS=0 EXPIRIES=0 CANCELS=0`),
  breaks('passing', 'token_grows', 'LATE_RELEASE_COUNTS HERE=2 FAULTS=1 CANCELS=0'),
  breaks('passing', 'token_grows', 'PASS_BEYOND_RESERVE RESERVE=1 FAULTS=0 CANCELS=0'),
  breaks('passing', 'bypass_bounded', 'COUNT_STARTS_AGAIN FAULTS=0 EXPIRIES=0 CANCELS=0'),
  breaks('passing', 'deadlock', 'NO_TURN_AFTER_LOSS HERE=2 FAULTS=0 CANCELS=0'),
  breaks('passing', 'served', 'NO_TURN_AFTER_LOSS HERE=2 FAULTS=0 CANCELS=0'),
  breaks('passing', 'deadlock', 'NO_TURN_AFTER_CANCEL FAULTS=0 EXPIRIES=0'),
  breaks('passing', 'deadlock', 'KEEPS_ABANDONED_GRANT HERE=2 FAULTS=0 EXPIRIES=0'),
]

const caching: readonly Row[] = [
  holds('caching', 'quick', 'safety', '', 216_482),
  holds('caching', 'quick', 'safety', 'CRASHES=1 THERE=1', 71_149),
  holds('caching', 'quick', 'served', 'CRASHES=1 THERE=1', 94_470),
  holds('caching', 'quick', 'safety', 'HERE=3 RESERVE=2 THERE=1', 104_472),
  holds('caching', 'full', 'safety', 'FAULTS=2 THERE=1', 620_549),
  holds('caching', 'full', 'served', '', 320_034),
  holds('caching', 'full', 'safety', 'CRASHES=1', 590_111),
  holds('caching', 'full', 'served', 'CRASHES=1', 841_216),
  holds('caching', 'full', 'served', 'FAULTS=2 THERE=1', 885_696),
  holds('caching', 'soak', 'safety', 'FAULTS=2', 6_802_191),
  holds('caching', 'soak', 'safety', 'HERE=3 THERE=3', 13_939_739),
  breaks('caching', 'claims_compatible', 'REUSES_RETURNED FAULTS=0'),
  breaks('caching', 'claims_compatible', 'KEEPS_OVER_RECONNECT FAULTS=2 THERE=1'),
  breaks('caching', 'claims_compatible', 'NO_QUARANTINE'),
  breaks('caching', 'token_grows', 'SAME_TOKEN FAULTS=0'),
  breaks('caching', 'token_grows', 'OLD_RESERVE FAULTS=0'),
  breaks('caching', 'token_grows', 'FORGETS_REUSES FAULTS=0'),
  breaks('caching', 'token_grows', 'TRUSTS_RELEASE', 'first'),
  breaks('caching', 'token_grows', 'REUSES_BEYOND_RESERVE HERE=3'),
  breaks('caching', 'reused_in_time', 'REUSES_UNPROVEN'),
  breaks('caching', 'nobody_passed_over', 'NEVER_GIVES_WAY FAULTS=0'),
  breaks('caching', 'served', 'NEVER_GIVES_WAY HERE=1 THERE=1 FAULTS=0'),
  breaks('caching', 'refused_for_real', 'BELIEVES_CACHE FAULTS=0'),
  breaks('caching', 'no_place_left', 'LEAVES_PLACE FAULTS=0'),
  breaks('caching', 'served', 'TOLD_ONCE THERE=1'),
  breaks('caching', 'served', 'NO_EXPIRY CRASHES=1 THERE=1 FAULTS=0'),
]

const broker: readonly Row[] = [
  holds('broker', 'quick', 'safety', 'CLIENTS=2', 78_511),
  holds('broker', 'quick', 'served', 'CLIENTS=2', 113_157),
  holds('broker', 'full', 'safety', 'CLIENTS=2 K=2', 454_627),
  holds('broker', 'full', 'safety', 'CLIENTS=2 K=2 CANCELS=1', 2_569_022),
  holds('broker', 'full', 'safety', 'CRASHES=1', 1_053_019),
  holds('broker', 'full', 'served', 'CRASHES=1', 1_578_856),
  holds('broker', 'soak', 'safety', '', 20_000_000),
  breaks('broker', 'claims_compatible', 'JOURNAL_AFTER_REPLY CLIENTS=2 CRASHES=1 DEATHS=0'),
  breaks('broker', 'claims_compatible', 'IGNORES_JOURNAL CLIENTS=2 CRASHES=1 DEATHS=0'),
  breaks('broker', 'claims_compatible', 'LIVE_IS_DEAD CLIENTS=2 CRASHES=1 DEATHS=0'),
  breaks('broker', 'claims_compatible', 'LOAD_BEFORE_BIND CLIENTS=2 CRASHES=1 DEATHS=0'),
  breaks('broker', 'claims_compatible', 'TWO_BROKERS CLIENTS=2 CRASHES=0 DEATHS=0'),
  breaks('broker', 'token_grows', 'TOKENS_START_AGAIN CLIENTS=2 CRASHES=1 DEATHS=0'),
  breaks('broker', 'token_grows', 'OWNER_IS_PROCESS CLIENTS=2 K=2 CRASHES=1 DEATHS=0'),
  breaks('broker', 'nobody_passed_over', 'NEW_PLACES CLIENTS=2 CRASHES=1 DEATHS=0'),
  breaks('broker', 'deadlock', 'PID_ONLY CLIENTS=2 CRASHES=1'),
  breaks('broker', 'served', 'PID_ONLY CLIENTS=2 CRASHES=1'),
  breaks('broker', 'deadlock', 'RELEASE_TOLD_ONCE CLIENTS=2 CRASHES=1 DEATHS=0'),
]

const sql: readonly Row[] = [
  holds('sql', 'quick', 'safety', '', 434_465),
  holds('sql', 'quick', 'served', '', 554_414),
  holds('sql', 'quick', 'safety', `NO_POLL ${noFaults} CANCELS=2`, 10_761),
  holds('sql', 'quick', 'safety', 'NO_HANDOFF', 217_573),
  holds('sql', 'full', 'served', 'NO_HANDOFF', 292_682),
  holds('sql', 'full', 'safety', 'FAULTS=2 CRASHES=2 EXPIRIES=2 CANCELS=2', 2_752_661),
  holds('sql', 'soak', 'safety', 'N=4', 20_000_000),
  breaks('sql', 'claims_compatible', `CLIENT_CLOCK N=2 ${noFaults} CANCELS=0`),
  breaks('sql', 'claims_compatible', `RELAXED_COMMIT N=2 ${noFaults} CANCELS=0`),
  breaks('sql', 'token_grows', `ROW_DELETED N=2 ${noFaults} CANCELS=0`),
  breaks('sql', 'nobody_passed_over', `NO_TICKETS FAULTS=0 EXPIRIES=0 CANCELS=0`),
  breaks('sql', 'deadlock', 'NO_POLL N=2 CRASHES=0 EXPIRIES=0 CANCELS=0'),
  breaks('sql', 'deadlock', `ENQUEUE_UNLOCKED NO_POLL N=2 ${noFaults} CANCELS=0`),
  breaks('sql', 'deadlock', `ONE_SNAPSHOT NO_POLL N=2 ${noFaults} CANCELS=0`),
  breaks('sql', 'served', 'ASKS_AS_NEW N=2 CRASHES=0 EXPIRIES=0 CANCELS=0'),
  breaks('sql', 'served', 'DEAD_PLACE_BLOCKS FAULTS=0 CRASHES=2 EXPIRIES=0 CANCELS=0'),
]

const redlock: readonly Row[] = [
  holds('redlock', 'quick', 'safety', '', 105_377),
  holds('redlock', 'quick', 'safety', 'REJOIN BALLOTS=2', 196_082),
  holds('redlock', 'quick', 'safety', 'AMNESIA QUARANTINE CLOCK_FLOOR BALLOTS=2', 349_377),
  holds('redlock', 'full', 'safety', 'RETRY BALLOTS=1', 913_776),
  holds('redlock', 'full', 'safety', 'RETRY BALLOTS=2', 2_784_370),
  holds('redlock', 'quick', 'safety', 'FORGETS', 248_864),
  holds('redlock', 'full', 'safety', 'REJOIN', 498_581),
  holds('redlock', 'full', 'safety', 'AMNESIA QUARANTINE CLOCK_FLOOR', 839_241),
  holds('redlock', 'full', 'safety', 'AMNESIA QUARANTINE CLOCK_FLOOR REJOIN', 3_066_459),
  holds('redlock', 'full', 'safety', 'AMNESIA QUARANTINE CLOCK_FLOOR RESTARTS=2', 2_744_887),
  holds('redlock', 'soak', 'safety', 'NODES=5', 20_000_000),
  holds('redlock', 'soak', 'safety', 'CLIENTS=3', 20_000_000),
  breaks('redlock', 'claims_compatible', 'LATE_CLOCK BALLOTS=2'),
  breaks('redlock', 'claims_compatible', 'COUNTS_ANSWERS BALLOTS=2'),
  breaks('redlock', 'claims_compatible', 'AMNESIA BALLOTS=2'),
  breaks('redlock', 'token_grows', 'AMNESIA QUARANTINE BALLOTS=2'),
  // Two million states before it is found.
  {
    ...breaks('redlock', 'claims_compatible', 'COUNTS_OLD_BALLOTS RETRY BALLOTS=2', 'first'),
    effort: 'full',
  },
  breaks('redlock', 'token_grows', 'FORGETS_SOON BALLOTS=2'),
  breaks('redlock', 'token_grows', 'COUNTER CLIENTS=3', 'first'),
]

const quarantine: readonly Row[] = [
  holds('quarantine', 'quick', 'safety', 'CLIENTS=2 LAST=6', 1_933_952),
  holds('quarantine', 'quick', 'safety', 'TRUSTING LOSSES=1 LAST=5', 1_043_794),
  breaks('quarantine', 'claims_compatible', 'NEWCOMER_VOUCHES CLIENTS=2 LOSSES=1 LAST=5'),
  breaks('quarantine', 'claims_compatible', 'NO_LINEAGE TRUSTING LOSSES=1 LAST=5'),
  breaks('quarantine', 'claims_compatible', 'BELIEVES_MARKER TRUSTING LOSSES=1 LAST=5'),
  breaks('quarantine', 'claims_compatible', 'ONLY_UPTIME CLIENTS=2 LOSSES=1 LAST=5'),
  breaks('quarantine', 'claims_compatible', 'FROM_START CLIENTS=2 LOSSES=1 LAST=5'),
  breaks('quarantine', 'claims_compatible', 'LONG_TTL CLIENTS=2 LOSSES=1 LAST=5'),
  breaks('quarantine', 'claims_compatible', 'LONG_EXTEND CLIENTS=2 LOSSES=1 LAST=5'),
  breaks('quarantine', 'claims_compatible', 'TRUSTS_DATA CLIENTS=2 LOSSES=1 LAST=5'),
  breaks('quarantine', 'claims_compatible', 'TRUSTS_UPTIME CLIENTS=2 LOSSES=1 LAST=5'),
]

const slots: readonly Row[] = [
  holds('slots', 'quick', 'safety', 'LOSSES=1', 945_873),
  holds('slots', 'full', 'safety', '', 6_866_185),
  breaks('slots', 'claims_compatible', 'ONLY_UPTIME LOSSES=1 LAST=5'),
  breaks('slots', 'claims_compatible', 'TRUSTS_MARKER LOSSES=1 LAST=5'),
  breaks('slots', 'claims_compatible', 'WITNESS_STAYS LOSSES=2 LAST=5'),
  breaks('slots', 'claims_compatible', 'LEAVES_QUARANTINE LOSSES=1 LAST=5'),
  breaks('slots', 'claims_compatible', 'MOVES_UNNOTICED LOSSES=1 LAST=5'),
]

const session: readonly Row[] = [
  holds('session', 'quick', 'safety', '', 1_012_082),
  holds('session', 'full', 'safety', 'LAG=3 TIMEOUT=5', 8_998_722),
  breaks('session', 'ends_first', 'TRUSTS_ANSWER'),
  breaks('session', 'ends_first', 'TAKES_TICK_OFF'),
  breaks('session', 'ends_first', 'COUNTS_SENDING'),
  breaks('session', 'ends_first', 'KEEPS_OLD_LAG'),
]

export const table: readonly Row[] = [
  ...handoff,
  ...passing,
  ...caching,
  ...broker,
  ...sql,
  ...redlock,
  ...session,
  ...quarantine,
  ...slots,
]
