/** Plays a scene with both locks and draws what happened. */
import { createTimeline, exclusion, type History, type Timeline, withSharedScale } from 'holdfast/verify'
import { lockDelay, missedWakeUp, sessionEnded } from './consul.js'
import { compaction, deadLeader, endedInLine } from './etcd.js'
import { failOver, forgetfulServer, restart } from './forgetting.js'
import { duplicateInsert, noIndex } from './mysql.js'
import { clockJump, doubleSubmit, longPause, longWork, noExpiry, wrongDelete } from './one-server.js'
import { poolExhausted } from './postgres.js'
import { type Outcome, onRedis, type Scene, type Side } from './scene.js'
import { order, SceneContext } from './scene-context.js'
import type { Servers } from './servers.js'
import { duplicateOrder, pointsRace, releaseBeforeCommit } from './stories.js'
import { herd, leaderLoss, lostReply, sessionExpiry } from './zookeeper.js'

export const scenes: readonly Scene[] = [
  ...[noExpiry, wrongDelete, longWork, longPause, clockJump].map(onRedis),
  ...[restart, failOver, forgetfulServer, doubleSubmit].map(onRedis),
  ...[herd, sessionExpiry, lostReply, leaderLoss],
  ...[deadLeader, endedInLine, compaction],
  ...[lockDelay, sessionEnded, missedWakeUp],
  ...[noIndex, poolExhausted, duplicateInsert],
  ...[releaseBeforeCommit, pointsRace, duplicateOrder],
]

export interface Take {
  readonly outcome: Outcome
  readonly history: History
  readonly timeline: Timeline
}

export interface SceneResult {
  readonly scene: Scene
  readonly naive: Take
  readonly holdfast: Take
}

export async function runScene(scene: Scene, servers: Servers): Promise<SceneResult> {
  const take = (side: Side) => runSide(scene, side, servers)
  const [naive, holdfast] = await Promise.all([take(scene.naive), take(scene.holdfast)])
  // One scale for both, so that a longer bar is a longer time.
  const [one, two] = withSharedScale([naive.timeline, holdfast.timeline])
  return {
    scene,
    naive: { ...naive, timeline: one ?? naive.timeline },
    holdfast: { ...holdfast, timeline: two ?? holdfast.timeline },
  }
}

/** Did the failure really occur, and did holdfast stand? */
export function asExpected({ naive, holdfast }: SceneResult): boolean {
  return !naive.outcome.ok && holdfast.outcome.ok
}

async function runSide(scene: Scene, side: Side, servers: Servers): Promise<Take> {
  await using place = new SceneContext(servers)
  const outcome = await inTime(side.play(place))
  const history = place.history.history()
  const violations = exclusion(history)
  const title = `${scene.title}: ${side.title}`
  const summary = { text: outcome.saw, good: outcome.ok }
  return {
    ...{ outcome, history },
    timeline: createTimeline(history, { name: scene.lock ?? order, title, violations, summary }),
  }
}

/** The longest scene takes 20 s by itself. */
const maxScene = 100_000

async function inTime<T>(playing: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const tooLong = () => reject(new Error(`the scene had not ended after ${maxScene / 1000} s`))
    timer = setTimeout(tooLong, maxScene)
  })
  return Promise.race([playing, late]).finally(() => clearTimeout(timer))
}
