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
 * | missing | a majority answers and none knows a group | servers that do not answer may know one: trusted `maxTtl` after its start if nothing was deleted since (`deletions.ts`), else `maxTtl` after that was noticed |
 * | another | known, without its boot id | it has restarted: trusted `maxTtl` after its start; or a replica was promoted: `maxTtl` after that was noticed |
 * | missing | known | it has restarted without its data, or they were deleted: trusted `maxTtl` after that was noticed |
 * | `q <until> <boot id>` | – | trusted when its clock has passed `until` |
 *
 * `maxTtl` after the loss, every vote the server could have forgotten has expired: Redlock's delayed restart, enforced by the data.
 */
import type { Env } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { evictionWarning, parseInfo } from '../redis/eviction.js'
import { withinTime } from '../redis/server.js'
import { nothingDeleted } from './deletions.js'
import { evictionCheck } from './eviction.js'
import { type Identity, NotIndependent, parseIdentity, refuseDependent } from './identity.js'
import { changeMarker, joinGroup, parseMarker, readGroup, readMarker } from './marker.js'
import { type Node, notIntroduced, notSent } from './node.js'
import type { Settings } from './options.js'
import { toReason } from './refusal.js'
import { round } from './round.js'

interface NodeView {
  readonly node: Node
  readonly epoch: number
  readonly identity: Identity
  /** The marker as read, so that it is changed only if it is still the same. */
  readonly marker: string
  readonly group: ReadonlySet<string>
}

/** Interval at which a server that is not trusted yet is checked again, in ms. */
const checkAgain = 250

export class Voters {
  readonly nodes: readonly Node[]
  readonly majority: number
  readonly markerKey: string
  readonly #groupKey: string
  readonly #env: Env
  readonly #settings: Settings
  #refreshing: Promise<void> | undefined
  readonly #checkEviction: (told: string | undefined) => void
  readonly #reading = new Map<Node, { readonly epoch: number; readonly seen: Promise<NodeView> }>()

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
   * after `within` ms. @throws BackendError when two clients lead to one server, or one to a node of a Cluster
   */
  async ready(within?: number): Promise<void> {
    const now = this.#env.clock.now()
    const due = this.nodes.filter((node) => !node.trusted && node.checkAgainAt <= now)
    if (due.length > 0) {
      this.#refreshing ??= this.#refresh().finally(() => {
        this.#refreshing = undefined
      })
    }
    const trusted = this.nodes.length - this.nodes.filter((node) => !node.trusted).length
    if (trusted >= this.majority) this.#refreshing?.catch(() => undefined)
    else if (within === undefined) await this.#refreshing
    else if (this.#refreshing !== undefined) {
      await withinTime(this.#env.clock, within, this.#refreshing).catch((error) => {
        if (error instanceof BackendError) throw error
      })
    }
  }

  async #refresh(): Promise<void> {
    const { clock } = this.#env
    const reply = await round(
      clock,
      this.#settings.commandTimeout,
      this.nodes,
      (node) => this.#toView(node),
      () => false,
    )
    const seen: NodeView[] = []
    for (const [place, one] of reply.entries()) {
      const node = this.nodes[place]
      if (node === undefined) continue
      node.checkAgainAt = clock.now() + checkAgain
      if (one instanceof NotIndependent) throw new BackendError('redlock', one.message)
      if (one instanceof Error) node.untrustedReason = toReason(one)
      else if (one === undefined)
        node.untrustedReason = `no answer within ${this.#settings.commandTimeout} ms`
      else seen.push(one)
    }
    for (const one of seen) this.#refuseDuplicates(one, seen)
    const judged = await Promise.all(
      seen.map((one) => this.#evaluate(one, seen).catch((error) => this.#suspend(one, error))),
    )
    const sound = judged.filter((one) => one !== undefined)
    // Introduce a server to the others before it votes, so that they recognise its next life whatever happens now.
    const boots = sound.map(({ identity }) => identity.boot)
    const missing = seen.filter(({ group }) => boots.some((boot) => !group.has(boot)))
    const unsubscribed = new Set<NodeView>()
    const introduced = missing.map((one) =>
      this.#join(one, boots).catch((error) => {
        unsubscribed.add(one)
        this.#suspend(one, error)
      }),
    )
    await Promise.all(introduced)
    const present = sound.filter((one) => !unsubscribed.has(one))
    await Promise.all(present.map((one) => this.#trust(one).catch((error) => this.#suspend(one, error))))
  }

  /** Asks a silent server again only once it has answered, or its connection has broken: the client may then have lost the request. */
  #toView(node: Node): Promise<NodeView> {
    const asked = this.#reading.get(node)
    if (asked !== undefined && asked.epoch === node.epoch) return asked.seen
    if (node.untrustedReason === notSent) node.untrustedReason = notIntroduced
    const seen = this.#readNode(node).finally(() => {
      if (this.#reading.get(node)?.seen === seen) this.#reading.delete(node)
    })
    this.#reading.set(node, { epoch: node.epoch, seen })
    return seen
  }

  async #readNode(node: Node): Promise<NodeView> {
    const { epoch, connection } = node
    const asked = Promise.all([
      node.run(readMarker, [this.markerKey], [this.#env.id()]),
      node.run(readGroup, [this.#groupKey], []),
    ])
    // What the server is says more than what it refuses.
    asked.catch(() => undefined)
    const fields = parseInfo(String(await connection.command('INFO')))
    refuseDependent(fields, node.label)
    const [[marker], group] = await asked
    if (epoch !== node.epoch) throw new Error(node.untrustedReason)
    this.#checkEviction(evictionWarning(fields))
    const identity = parseIdentity(fields)
    node.reportsTime(identity.now)
    return {
      node,
      epoch,
      identity,
      marker: String(marker),
      group: new Set(group.map(String)),
    }
  }

  /** One that is silent in this check, and is trusted since an earlier one, still votes. */
  #refuseDuplicates(one: NodeView, seen: readonly NodeView[]): void {
    const trusted = this.nodes.filter((node) => node.trusted)
    const duplicate = [...seen, ...trusted.map((node) => ({ node, identity: node.identity }))].find(
      ({ node, identity }) => node !== one.node && identity?.run === one.identity.run,
    )
    if (duplicate === undefined) return
    const labels = [one.node.label, duplicate.node.label].sort().join(' and ')
    throw new BackendError(
      'redlock',
      `${labels} are the same server; a server has one vote, so connect each client to a different one`,
    )
  }

  /** Returns the server if it may vote; otherwise notes the reason and returns undefined. */
  async #evaluate(one: NodeView, seen: readonly NodeView[]): Promise<NodeView | undefined> {
    const { node, identity } = one
    const marker = parseMarker(one.marker)
    // The beginning suffices: a promoted server that has given up its replication history lives on.
    const own = marker.is !== 'note' && marker.boot.startsWith(identity.boot)
    if (own && marker.is === 'whole') return one
    if (own && marker.is === 'doubtful') return this.#waited(one, marker.until)
    const { maxTtl, commandTimeout } = this.#settings
    const known = seen.filter(({ group }) => group.size > 0)
    const founding = known.length === 0 && marker.is === 'note'
    if (founding && seen.length === this.nodes.length) return one
    if (founding && seen.length < this.majority) {
      return this.#suspend(one, 'too few other servers answer to tell whether it has forgotten votes')
    }
    const deleted = known.some(({ group }) => group.has(identity.boot))
    // A process that founds a group introduces a server before marking it, and may be about to mark it.
    if (
      deleted &&
      marker.is === 'note' &&
      node.wall - marker.at < Math.min(3 * commandTimeout, maxTtl) * 1_000
    )
      return this.#suspend(one, 'it has no marker; another process may be about to say that it is new')
    // The server has given no vote since the note was left.
    const lost = marker.is === 'note' ? Math.min(marker.at, node.wall) : node.wall
    // The servers that answer may never have met this life of the server, so a missing marker cannot tell a restart from data deleted since.
    const sinceStart = founding ? await this.#hasDeletedNothing(one) : !deleted && marker.is !== 'note'
    const forgot = sinceStart ? identity.since : lost
    const until = Math.ceil(forgot + (maxTtl + 1_000) * 1_000)
    return this.#waited(await this.#writeMarker(one, `q ${until} ${identity.boot}`), until)
  }

  /** Asked after the note was read: what is deleted later takes the note away, and the marker is then not changed. */
  async #hasDeletedNothing({ node, epoch }: NodeView): Promise<boolean> {
    const asked = node.connection.command('INFO', 'commandstats')
    const stats = await withinTime(this.#env.clock, this.#settings.commandTimeout, asked)
    // Another life counts anew.
    if (epoch !== node.epoch) throw new Error(node.untrustedReason)
    return nothingDeleted(parseInfo(String(stats)))
  }

  #waited(one: NodeView, until: number): NodeView | undefined {
    const left = (until - one.node.wall) / 1_000
    if (left <= 0) return one
    one.node.quarantined = true
    return this.#suspend(one, `it may have forgotten votes and takes part again in ${Math.ceil(left)} ms`)
  }

  async #trust(one: NodeView): Promise<void> {
    const { node, epoch, identity } = one
    if (one.marker !== identity.boot) await this.#writeMarker(one, identity.boot)
    if (epoch !== node.epoch) return
    node.identity = identity
    node.quarantined = false
    node.trusted = true
  }

  async #writeMarker(one: NodeView, marker: string): Promise<NodeView> {
    const { node } = one
    const changed = node.run(changeMarker, [this.markerKey], [one.marker, marker])
    const [found] = await withinTime(this.#env.clock, this.#settings.commandTimeout, changed)
    if (found !== marker) throw new Error('its marker has changed since it was read')
    return { ...one, marker }
  }

  #suspend({ node }: NodeView, why: unknown): undefined {
    node.trusted = false
    node.untrustedReason = toReason(why)
    return undefined
  }

  async #join({ node }: NodeView, boots: readonly string[]): Promise<void> {
    // With a time-out: a server that falls silent halfway must not keep the others from voting.
    const joined = node.run(joinGroup, [this.#groupKey], boots)
    await withinTime(this.#env.clock, this.#settings.commandTimeout, joined)
  }

  close(): void {
    for (const node of this.nodes) node.close()
  }
}
