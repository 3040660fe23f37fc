/** Every lock of the ladder, from the lowest rung up. */
import { setnxExpire } from './1-setnx-expire.js'
import { setNxPx } from './2-set-nx-px.js'
import { compareAndDelete } from './3-compare-and-delete.js'
import { watchdog } from './4-watchdog.js'
import { reentrant } from './5-reentrant.js'
import { publish } from './6-publish.js'
import { lateRedlock, redlockByHand } from './7-redlock.js'
import { fencing, unfenced } from './8-fencing.js'
import { holdfastRedis, holdfastRedlock } from './holdfast.js'
import type { Recipe } from './lock.js'

export const recipes: readonly Recipe[] = [
  setnxExpire,
  setNxPx,
  compareAndDelete,
  watchdog,
  reentrant,
  publish,
  lateRedlock,
  redlockByHand,
  holdfastRedis,
  holdfastRedlock,
  unfenced,
  fencing,
]
