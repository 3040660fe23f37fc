/** Every contender by its id, so that a worker process can be told which one to create. */
import type { Recipe } from './contender.js'
import { bare, bareMajority, barePush } from './floors.js'
import { ours, oursFair, oursLinger, oursMajority } from './ours.js'
import { peerRecipes } from './peers.js'

export const recipes: Readonly<Record<string, Recipe>> = {
  ours: ours('ioredis'),
  'ours-node': ours('node-redis'),
  'ours-fair': oursFair('ioredis'),
  'ours-linger': oursLinger('ioredis'),
  bare: bare('ioredis'),
  'bare-node': bare('node-redis'),
  push: barePush,
  'quorum-ours': oursMajority,
  'quorum-bare': bareMajority,
  ...peerRecipes,
}

export function findRecipe(id: string): Recipe {
  const recipe = recipes[id]
  if (recipe === undefined) throw new Error(`no contender is called ${id}`)
  return recipe
}
