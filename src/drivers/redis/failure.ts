/**
 * Classifies errors of the client and the server. No error ever means "acquired" or "lost": a refusal says nothing about who
 * holds the lock, and silence says nothing at all.
 */
import { BackendError } from '../../core/errors.js'
import { noAnswer } from '../kit/no-answer.js'
import type { Connection } from './client.js'
import { evictionText } from './eviction.js'
import { GarbledReply } from './reply-shapes.js'
import { withoutLogin } from './without-login.js'

export interface Failure {
  /** Worth a retry while the wait lasts. */
  readonly transient: boolean
  /** May the server have executed the request all the same? */
  readonly ambiguous: boolean
  readonly error: BackendError
}

/** Why a client that is none of a Cluster is refused with CROSSSLOT, MOVED or ASK. */
const ofCluster =
  'this is a node of a Cluster, which needs a client of the Cluster: `new Cluster()` of ioredis, `createCluster()` of redis, or redis+cluster:// in a URL'

/** Temporary refusals, and the message for a wait that fails because of one. */
const transientCodes: Readonly<Record<string, string>> = {
  LOADING: 'it is still loading its data',
  BUSY: 'a script of another program blocks it; SCRIPT KILL ends that',
  MASTERDOWN: 'this replica has lost its master',
  READONLY: 'this is a replica: point the client at the master, or use Sentinel or Cluster',
  NOREPLICAS: 'it reaches fewer replicas than min-replicas-to-write requires',
  CLUSTERDOWN: 'the cluster does not serve all slots',
  TRYAGAIN: 'the slot is being moved to another node',
  MOVED: 'the slot has moved and the client did not follow',
  ASK: 'the slot is being moved and the client did not follow',
  UNBLOCKED: 'its role has changed',
}

/** Refusals that last until somebody fixes the cause. */
const permanentCodes: Readonly<Record<string, string>> = {
  OOM: 'its memory is full (maxmemory); free some, because acquiring a lock needs memory',
  NOPERM:
    'the ACL user lacks a right; it needs eval, evalsha, info and the commands in the scripts on the lock keys, and channels `<prefix>c:*`',
  NOAUTH: 'the client has not logged in',
  WRONGPASS: 'the client could not log in',
  WRONGTYPE: 'another program uses the key of this lock; choose another prefix',
  CROSSSLOT: ofCluster,
  MISCONF: 'it refuses writes because it could not save to disk',
}

/** Of a command inside a script, whose refusal has no code of its own: Redis 7.0, and the later ones with Valkey. */
const refusedInScript = /The user executing the script can't|ACL failure in script:/

/**
 * A refusal that lasts until somebody fixes the cause: its code, and the cause with the remedy.
 * @param message of the client's error
 */
export function lastingRefusal(message: string): readonly [code: string, what: string] | undefined {
  const found = /^[A-Z]+(?= |$)/.exec(message)?.[0] ?? ''
  const code = found === 'ERR' && refusedInScript.test(message) ? 'NOPERM' : found
  const what = permanentCodes[code]
  if (what === undefined) return undefined
  const [, command] = /no permissions to run the '([^']+)' command/.exec(message) ?? []
  const named = code === 'NOPERM' && command !== undefined
  return [code, named ? what.replace('lacks a right', `may not run '${command}'`) : what]
}

/** Without INFO a server that has forgotten locks cannot be recognised, so the driver requests none from it. */
const noInfo =
  "this account may not run INFO, which shows whether the server may have forgotten locks: ACL SETUSER <user> +info, or quarantine: 'off', with which a restart can give a lock to a second holder"

/** The server answers, but does not show whether it may have forgotten locks. */
export class NoInfoError extends BackendError {
  constructor() {
    super('redis', noInfo)
  }
}

export function toFailure(
  thrown: unknown,
  { cluster, ended, outage }: Pick<Connection, 'cluster' | 'ended' | 'outage'>,
): Failure {
  const error = withoutLogin(thrown)
  if (error instanceof BackendError) return { transient: false, ambiguous: false, error }
  if (error instanceof GarbledReply)
    return { transient: false, ambiguous: true, error: new BackendError('redis', error.message) }
  const message = error instanceof Error ? error.message : String(error)
  const code = /^[A-Z]+(?= |$)/.exec(message)?.[0] ?? ''
  if ((code === 'MOVED' || code === 'ASK') && !cluster)
    return { transient: false, ambiguous: false, error: refusalError(code, ofCluster, error) }
  const soon = transientCodes[code]
  const never = lastingRefusal(message)
  if (soon !== undefined)
    return { transient: true, ambiguous: false, error: refusalError(code, soon, error, true) }
  if (never !== undefined) return { transient: false, ambiguous: false, error: refusalError(...never, error) }
  // The scripts' own words.
  if (code === 'EVICTS') {
    const text = evictionText(message.slice(code.length + 1))
    return { transient: false, ambiguous: false, error: new BackendError('redis', text) }
  }
  if (code === 'NOINFO') return { transient: false, ambiguous: false, error: new NoInfoError() }
  if (code === 'ERR') {
    return {
      transient: false,
      ambiguous: false,
      error: new BackendError('redis', `the server refused: ${message}`, { cause: error }),
    }
  }
  if (ended) {
    const text =
      outage === undefined
        ? 'the client is closed; connect it first, and close it after the locks'
        : `the client has given up: ${outage.message}; connect it again`
    return {
      transient: false,
      ambiguous: true,
      error: noReplyError(text, error, outage, { unanswered: outage !== undefined, transient: false }),
    }
  }
  return { transient: true, ambiguous: true, error: noReplyError(noReply(message, outage), error, outage) }
}

/** The client's own words, such as "Reached the max retries", say less than its connection error. */
function noReply(message: string, outage: Error | undefined): string {
  if (outage === undefined) return noAnswer(message)
  return /^no answer/.test(message) ? `${message}: ${outage.message}` : noAnswer(outage.message)
}

function noReplyError(
  text: string,
  error: unknown,
  outage: Error | undefined,
  kind: { readonly unanswered: boolean; readonly transient: boolean } = { unanswered: true, transient: true },
): BackendError {
  return new BackendError('redis', text, { cause: outage ?? error, ...kind })
}

/** Will the server never let this client subscribe? The ACL denies the channel, or the command does not exist. */
export function isRefusal({ message }: Error): boolean {
  return /^(NOPERM|ERR) /.test(message)
}

function refusalError(code: string, what: string, cause: unknown, transient = false): BackendError {
  return new BackendError('redis', refusalText(code, what), { cause, transient })
}

export function refusalText(code: string, what: string): string {
  return `the server refused (${code}): ${what}`
}
