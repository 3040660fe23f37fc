/** The ladder: which rung fails in which scene, and which locks stand there: the rung above, and holdfast. */
import { crash, setnxExpire } from './1-setnx-expire.js'
import { setNxPx, wrongRelease } from './2-set-nx-px.js'
import { compareAndDelete, longWork } from './3-compare-and-delete.js'
import { reentry, watchdog } from './4-watchdog.js'
import { polling, reentrant } from './5-reentrant.js'
import { herd } from './6-herd.js'
import { emptyRestart, failOver } from './6-lost-data.js'
import { lostReply } from './6-lost-reply.js'
import { missedMessage } from './6-missed-message.js'
import { publish } from './6-publish.js'
import { forgetfulServer } from './7-forgetful-server.js'
import { lateReplies } from './7-late-replies.js'
import { lateRedlock, redlockByHand } from './7-redlock.js'
import { fencing, pausedHolder, unfenced } from './8-fencing.js'
import { holdfastRedis, holdfastRedlock } from './holdfast.js'
import type { Outcome, Recipe, Scene } from './lock.js'

export interface Act {
  readonly rung: number
  readonly scene: Scene
  readonly naive: Recipe
  /** The rung above; absent where that is holdfast itself. */
  readonly above?: Recipe
  readonly holdfast: Recipe
}

export const ladder: readonly Act[] = [
  { rung: 1, scene: crash, naive: setnxExpire, above: setNxPx, holdfast: holdfastRedis },
  { rung: 2, scene: wrongRelease, naive: setNxPx, above: compareAndDelete, holdfast: holdfastRedis },
  { rung: 3, scene: longWork, naive: compareAndDelete, above: watchdog, holdfast: holdfastRedis },
  { rung: 4, scene: reentry, naive: watchdog, above: reentrant, holdfast: holdfastRedis },
  { rung: 5, scene: polling, naive: reentrant, above: publish, holdfast: holdfastRedis },
  { rung: 6, scene: herd, naive: publish, holdfast: holdfastRedis },
  { rung: 6, scene: missedMessage, naive: publish, holdfast: holdfastRedis },
  { rung: 6, scene: lostReply, naive: publish, holdfast: holdfastRedis },
  { rung: 6, scene: failOver, naive: publish, holdfast: holdfastRedis },
  { rung: 6, scene: emptyRestart, naive: publish, above: redlockByHand, holdfast: holdfastRedis },
  { rung: 7, scene: lateReplies, naive: lateRedlock, above: redlockByHand, holdfast: holdfastRedlock },
  { rung: 7, scene: forgetfulServer, naive: redlockByHand, holdfast: holdfastRedlock },
  { rung: 7, scene: pausedHolder, naive: redlockByHand, holdfast: fencing },
  { rung: 8, scene: pausedHolder, naive: unfenced, holdfast: fencing },
]

export interface Played {
  readonly name: string
  readonly naive: Outcome
  readonly above?: Outcome
  readonly holdfast: Outcome
}

/** Plays one scene with each of its locks, at the same time and on servers of their own. */
export async function play({ scene, naive, above, holdfast }: Act): Promise<Played> {
  const [low, next, high] = await Promise.all([
    scene.run(naive),
    above && scene.run(above),
    scene.run(holdfast),
  ])
  return { name: scene.name, naive: low, ...(next && { above: next }), holdfast: high }
}

/** Did the failure really occur, and did every lock stand that should? */
export function asTold({ naive, above, holdfast }: Played): boolean {
  return !naive.ok && above?.ok !== false && holdfast.ok
}
