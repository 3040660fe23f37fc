/** Plays a scene with both locks, each on servers of its own, and draws what happened. */
import { exclusion, type History, type Timeline, timelineOf } from 'holdfast/verify'
import { failOver, forgetfulServer, restart } from './forgetting.js'
import type { Way } from './lock.js'
import { clockJump, doubleSubmit, longPause, longWork, noExpiry, wrongDelete } from './one-server.js'
import { type Outcome, order, type Scene } from './scene.js'
import { Stage } from './stage.js'

export const scenes: readonly Scene[] = [
  ...[noExpiry, wrongDelete, longWork, longPause, clockJump],
  ...[restart, failOver, forgetfulServer, doubleSubmit],
]

export interface Take {
  readonly outcome: Outcome
  readonly history: History
  readonly timeline: Timeline
}

export interface Played {
  readonly scene: Scene
  readonly naive: Take
  readonly holdfast: Take
}

export async function play(scene: Scene): Promise<Played> {
  const [naive, holdfast] = await Promise.all([take(scene, scene.naive), take(scene, scene.holdfast)])
  return { scene, naive, holdfast }
}

/** Was the failure really seen, and did holdfast stand? */
export function asTold({ naive, holdfast }: Played): boolean {
  return !naive.outcome.ok && holdfast.outcome.ok
}

async function take(scene: Scene, way: Way): Promise<Take> {
  await using stage = await Stage.open(way, scene.servers, scene.options)
  const outcome = await scene.run(stage)
  const history = stage.diary.history()
  const violations = exclusion(history)
  const title = `${scene.title}: ${way.title}`
  return { outcome, history, timeline: timelineOf(history, { name: order, title, violations }) }
}
