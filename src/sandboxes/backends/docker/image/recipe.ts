/**
 * Reads the recipe in `image/`: the packages and the steps that finish them. An image's name is derived from all its
 * inputs.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { CraikError } from '../../../../errors.ts'
import { canonicalJson } from '../../../../lib/canonical-json.ts'
import { packageFile } from '../../../../lib/package-files.ts'
import { checkPackages } from './packages.ts'

const recipeSchema = z.strictObject({
  suite: z.string().regex(/^[a-z]{2,20}$/),
  /** No file in the image is newer, so that the build date does not change it. */
  epochSeconds: z.int().positive(),
  packages: z.array(z.string()).min(1),
  /** mmdebstrap's arguments besides the packages. The finishing script cleans up after apt. */
  mmdebstrap: z.array(z.string().startsWith('--')),
})

export interface Recipe {
  readonly suite: string
  readonly epochSeconds: number
  /** The packages of every image. */
  readonly packages: readonly string[]
  readonly mmdebstrap: readonly string[]
  readonly dockerfile: string
  /** The scripts that finish a root file system, by name. */
  readonly scripts: Readonly<Record<(typeof SCRIPTS)[number], Buffer>>
}

const SCRIPTS = ['finish.sh', 'apt'] as const

/** Increase this when the same inputs produce a different image. */
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

/** Returns the key of the root file system: SHA-256 over the suite, packages, scripts and architecture. */
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

/**
 * Returns the key of a harness layer, from the key below it and the harness's id. The id identifies all its content.
 */
export function harnessKey(parent: string, id: string): string {
  return sha256(canonicalJson({ form: FORM, kind: 'harness', parent, id }))
}

/** Returns the key of the sandbox image, from the root file system and the digests of the files at /opt/craik. */
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
