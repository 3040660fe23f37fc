/**
 * Decides which servers may vote.
 *
 * Redlock breaks when a server forgets its votes and votes again: with {1, 2} of three for one holder, a restarted 2 and 3 make a
 * majority for another. So the servers remember each other. Each keeps a *marker*, the boot id of the life in which its data
 * were last known to be whole, and the *group*, the boot ids of all servers that took part. A client that connects compares them
 * as in the table below.
 * Long because this table and the code that implements it are read together.
 *
 * | marker of the server | the others' group | then |
 * |---|---|---|
 * | its present boot id | – | trusted |
 * | missing | all answer and none knows a group | a new group: trusted, marked |
 * | missing | a majority answers and none knows a group | trusted `maxTtl` after its start: servers that do not answer may know one |
 * | another | known, without its boot id | it has restarted: trusted `maxTtl` after its start; or a replica was promoted: `maxTtl` after that was noticed |
 * | missing | known | it has restarted without its data, or they were deleted: trusted `maxTtl` after that was noticed |
 * | `q <until> <boot id>` | – | trusted when its clock has passed `until` |
 *
 * `maxTtl` after the loss, every vote the server could have forgotten has expired: Redlock's delayed restart, enforced by the data.
 */
import type { Env } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { evictionIn, fieldsOf, inTime } from '../redis/server.js'
import { evictionCheck } from './eviction.js'
import { changeMarker, joinGroup, markerIn, readGroup, readMarker } from './marker.js'
import { type Identity, identityIn, type Node, notAsked, notMet } from './node.js'
import type { Settings } from './options.js'
import { round } from './round.js'

interface Seen {
  readonly node: Node
  readonly epoch: number
  readonly identity: Identity
  /** The marker as read, so that it is changed only if it is still the same. */
  readonly marker: string
  readonly group: ReadonlySet<string>
}

/** Interval at which a server that is not trusted yet is checked again, in ms. */
const lookAgain = 250

export class Voters {
  readonly nodes: readonly Node[]
  readonly majority: number
  readonly markerKey: string
  readonly #groupKey: string
  readonly #env: Env
  readonly #settings: Settings
  #looking: Promise<void> | undefined
  readonly #checkEviction: (told: string | undefined) => void
  readonly #seeing = new Map<Node, { readonly epoch: number; readonly seen: Promise<Seen> }>()

  constructor(nodes: readonly Node[], env: Env, settings: Settings) {
    this.nodes = nodes
    this.majority = Math.floor(nodes.length / 2) + 1
    this.markerKey = `${settings.prefix}redlock!marker`
    this.#groupKey = `${settings.prefix}redlock!group`
    this.#env = env
    this.#settings = settings
    this.#checkEviction = evictionCheck(settings.eviction)
  }

  /**
   * Checks servers that are not trusted. Resolves at once when enough servers are trusted, else when the check is complete, or
   * after `within` ms. @throws BackendError when two clients lead to one server
   */
  async ready(within?: number): Promise<void> {
    const now = this.#env.clock.now()
    const due = this.nodes.filter((node) => !node.trusted && node.lookAgainAt <= now)
    if (due.length > 0) {
      this.#looking ??= this.#look().finally(() => {
        this.#looking = undefined
      })
    }
    const trusted = this.nodes.length - this.nodes.filter((node) => !node.trusted).length
    if (trusted >= this.majority) this.#looking?.catch(() => undefined)
    else if (within === undefined) await this.#looking
    else if (this.#looking !== undefined) {
      await inTime(this.#env.clock, within, this.#looking).catch((error) => {
        if (error instanceof BackendError) throw error
      })
    }
  }

  async #look(): Promise<void> {
    const { clock } = this.#env
    const said = await round(
      clock,
      this.#settings.commandTimeout,
      this.nodes,
      (node) => this.#seen(node),
      () => false,
    )
    const seen: Seen[] = []
    for (const [place, one] of said.entries()) {
      const node = this.nodes[place]
      if (node === undefined) continue
      node.lookAgainAt = clock.now() + lookAgain
      if (one instanceof Error) node.distrust = one.message
      else if (one === undefined) node.distrust = `no answer within ${this.#settings.commandTimeout} ms`
      else seen.push(one)
    }
    for (const one of seen) this.#refuseTwins(one, seen)
    const judged = await Promise.all(
      seen.map((one) => this.#judge(one, seen).catch((error) => this.#doubt(one, error))),
    )
    const sound = judged.filter((one) => one !== undefined)
    // Introduce a server to the others before it votes, so that they recognise its next life whatever happens now.
    const boots = sound.map(({ identity }) => identity.boot)
    const missing = seen.filter(({ group }) => boots.some((boot) => !group.has(boot)))
    const deaf = new Set<Seen>()
    const introduced = missing.map((one) =>
      this.#introduce(one, boots).catch((error) => {
        deaf.add(one)
        this.#doubt(one, error)
      }),
    )
    await Promise.all(introduced)
    const present = sound.filter((one) => !deaf.has(one))
    await Promise.all(present.map((one) => this.#trust(one).catch((error) => this.#doubt(one, error))))
  }

  /** Asks a silent server again only once it has answered, or its connection has broken: the client may then have lost the request. */
  #seen(node: Node): Promise<Seen> {
    const asked = this.#seeing.get(node)
    if (asked !== undefined && asked.epoch === node.epoch) return asked.seen
    if (node.distrust === notAsked) node.distrust = notMet
    const seen = this.#see(node).finally(() => {
      if (this.#seeing.get(node)?.seen === seen) this.#seeing.delete(node)
    })
    this.#seeing.set(node, { epoch: node.epoch, seen })
    return seen
  }

  async #see(node: Node): Promise<Seen> {
    const { epoch, connection } = node
    const [info, [marker], group] = await Promise.all([
      connection.command('INFO'),
      node.run(readMarker, [this.markerKey], [this.#env.id()]),
      node.run(readGroup, [this.#groupKey], []),
    ])
    if (epoch !== node.epoch) throw new Error(node.distrust)
    const fields = fieldsOf(String(info))
    this.#checkEviction(evictionIn(fields))
    const identity = identityIn(fields)
    node.tellsTime(identity.now)
    return {
      node,
      epoch,
      identity,
      marker: String(marker),
      group: new Set(group.map(String)),
    }
  }

  #refuseTwins(one: Seen, seen: readonly Seen[]): void {
    const twin = seen.find((other) => other !== one && other.identity.boot === one.identity.boot)
    if (twin === undefined) return
    const labels = [one.node.label, twin.node.label].sort().join(' and ')
    throw new BackendError(
      'redlock',
      `${labels} are the same server; a server has one vote, give each client one of its own`,
    )
  }

  /** Returns the server if it may vote; otherwise notes the reason and returns undefined. */
  async #judge(one: Seen, seen: readonly Seen[]): Promise<Seen | undefined> {
    const { node, identity } = one
    const marker = markerIn(one.marker)
    // The beginning suffices: a promoted server that has given up its replication history lives on.
    const own = marker.is !== 'note' && marker.boot.startsWith(identity.boot)
    if (own && marker.is === 'whole') return one
    if (own && marker.is === 'doubtful') return this.#waited(one, marker.until)
    const { maxTtl, commandTimeout } = this.#settings
    const known = seen.filter(({ group }) => group.size > 0)
    const founding = known.length === 0 && marker.is === 'note'
    if (founding && seen.length === this.nodes.length) return one
    if (founding && seen.length < this.majority) {
      return this.#doubt(one, 'too few other servers answer to tell whether it has forgotten votes')
    }
    const deleted = known.some(({ group }) => group.has(identity.boot))
    // A process that founds a group introduces a server before marking it, and may be about to mark it.
    if (
      deleted &&
      marker.is === 'note' &&
      node.wall - marker.at < Math.min(3 * commandTimeout, maxTtl) * 1_000
    )
      return this.#doubt(one, 'it has no marker; another process may be about to say that it is new')
    // The server has given no vote since the note was left.
    const lost = marker.is === 'note' ? Math.min(marker.at, node.wall) : node.wall
    // The servers that answer may never have met this life of the server, so a missing marker cannot tell a restart from data deleted since.
    const forgot = deleted || (marker.is === 'note' && !founding) ? lost : identity.since
    const until = Math.ceil(forgot + (maxTtl + 1_000) * 1_000)
    return this.#waited(await this.#mark(one, `q ${until} ${identity.boot}`), until)
  }

  #waited(one: Seen, until: number): Seen | undefined {
    const left = (until - one.node.wall) / 1_000
    if (left <= 0) return one
    one.node.quarantined = true
    return this.#doubt(one, `it may have forgotten votes and takes part again in ${Math.ceil(left)} ms`)
  }

  async #trust(one: Seen): Promise<void> {
    const { node, epoch, identity } = one
    if (one.marker !== identity.boot) await this.#mark(one, identity.boot)
    if (epoch !== node.epoch) return
    node.identity = identity
    node.quarantined = false
    node.trusted = true
  }

  async #mark(one: Seen, marker: string): Promise<Seen> {
    const { node } = one
    const changed = node.run(changeMarker, [this.markerKey], [one.marker, marker])
    const [found] = await inTime(this.#env.clock, this.#settings.commandTimeout, changed)
    if (found !== marker) throw new Error('its marker has changed since it was read')
    return { ...one, marker }
  }

  #doubt({ node }: Seen, why: unknown): undefined {
    node.trusted = false
    node.distrust = why instanceof Error ? why.message : String(why)
    return undefined
  }

  async #introduce({ node }: Seen, boots: readonly string[]): Promise<void> {
    // With a time-out: a server that falls silent halfway must not keep the others from voting.
    const joined = node.run(joinGroup, [this.#groupKey], boots)
    await inTime(this.#env.clock, this.#settings.commandTimeout, joined)
  }

  close(): void {
    for (const node of this.nodes) node.close()
  }
}
