/** The recipe in `image/`: which packages, and what is done to them. An image is named after all that goes into it. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { CraikError } from '../../../../errors.ts'
import { canonicalJson } from '../../../../lib/canonical-json.ts'
import { packageFile } from '../../../../lib/package-files.ts'
import { checkPackages } from './packages.ts'

const recipeSchema = z.strictObject({
  suite: z.string().regex(/^[a-z]{2,20}$/),
  /** No file in the image is newer, so that the day on which it was made does not show. */
  epochSeconds: z.int().positive(),
  packages: z.array(z.string()).min(1),
  /** What it is told beyond the packages; the finishing script cleans up after apt. */
  mmdebstrap: z.array(z.string().startsWith('--')),
})

export interface Recipe {
  readonly suite: string
  readonly epochSeconds: number
  /** Those that every image has. */
  readonly packages: readonly string[]
  readonly mmdebstrap: readonly string[]
  readonly dockerfile: string
  /** The scripts that finish a root file system, by name. */
  readonly scripts: Readonly<Record<(typeof SCRIPTS)[number], Buffer>>
}

const SCRIPTS = ['finish.sh', 'apt'] as const

/** When the same inputs are to be made into something else, this changes. */
const FORM = 1

export function readRecipe(): Recipe {
  const settings = recipeSchema.parse(JSON.parse(readPart('recipe.json').toString()))
  return {
    ...settings,
    packages: checkPackages(settings.packages),
    dockerfile: readPart('Dockerfile').toString(),
    scripts: { 'finish.sh': readPart('finish.sh'), apt: readPart('apt') },
  }
}

/** Of the root file system: SHA-256 over the suite, the packages, the scripts and the machine that it is for. */
export function baseKey(recipe: Recipe, extra: readonly string[], architecture: string): string {
  const scripts = SCRIPTS.map((name) => [name, sha256(recipe.scripts[name])])
  return sha256(
    canonicalJson({
      form: FORM,
      kind: 'base',
      architecture,
      suite: recipe.suite,
      epochSeconds: recipe.epochSeconds,
      packages: allPackages(recipe, extra),
      mmdebstrap: recipe.mmdebstrap,
      dockerfile: sha256(recipe.dockerfile),
      scripts: Object.fromEntries(scripts),
    }),
  )
}

/** Of what is below it and one of the agents' command lines more, whose id says all that goes into that. */
export function harnessKey(parent: string, id: string): string {
  return sha256(canonicalJson({ form: FORM, kind: 'harness', parent, id }))
}

/** Of the image that sandboxes run: the root file system, and by their digests the files at /opt/craik. */
export function sandboxKey(base: string, files: Readonly<Record<string, string>>, config: string): string {
  return sha256(canonicalJson({ form: FORM, kind: 'sandbox', base, files, config: sha256(config) }))
}

export function allPackages(recipe: Recipe, extra: readonly string[]): readonly string[] {
  return checkPackages([...recipe.packages, ...extra])
}

function sha256(content: Buffer | string): string {
  return createHash('sha256').update(content).digest('hex')
}

function readPart(name: string): Buffer {
  try {
    return readFileSync(packageFile(`image/${name}`))
  } catch (cause) {
    throw new CraikError('unavailable', `the image recipe is incomplete: image/${name} is missing`, {
      hint: 'reinstall craik',
      cause,
    })
  }
}
