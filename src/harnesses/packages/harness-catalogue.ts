/**
 * The agents' command lines that Craik knows, and npm, which comes to a sandbox in the same way: exact versions in
 * `image/harnesses/`, each named after what goes into it.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { canonicalJson } from '../../lib/canonical-json.ts'
import { packageFile } from '../../lib/package-files.ts'
import { TOOL_NAMES } from '../../sandboxes/harness-package.ts'

/** In the order of the layers of an image; what changes seldom is below. */
export const PACKAGED_HARNESS_NAMES = ['opencode', 'kimi', 'gemini', 'codex', 'claude-code'] as const
export type PackagedHarnessName = (typeof PACKAGED_HARNESS_NAMES)[number]

/** What is no agent: below them, because it changes most seldom. */
export const PACKAGE_NAMES = [...TOOL_NAMES, ...PACKAGED_HARNESS_NAMES] as const
export type PackageName = (typeof PACKAGE_NAMES)[number]

export const ARCHITECTURES = ['x64', 'arm64'] as const
export type Architecture = (typeof ARCHITECTURES)[number]

/** When the same inputs are to be made into something else, this changes. */
const FORM = 1

const file = z
  .string()
  .regex(/^node_modules(?:\/[A-Za-z0-9@._+-]+)+$/)
  .refine(
    (path) => !path.split('/').some((part) => part === '..' || part === '.'),
    'must not contain . or ..',
  )
/** One that lies beside the recipe: it is put into the folder as it is. */
const ownFile = z.string().regex(/^[a-z][a-z0-9-]{0,40}\.mjs$/)
const program = z.string().regex(/^[a-z][a-z0-9-]{0,40}$/)
const pattern = z.string().regex(/^[A-Za-z0-9@._+*/-]{1,200}$/)

/** What is put into `bin`: a program for the processor, or a file that Node runs. */
const ownProgram = z.union([
  z.strictObject({ native: z.partialRecord(z.enum(ARCHITECTURES), file) }),
  z.strictObject({
    node: z.union([file, ownFile]),
    /** Variables by which it finds others of these programs. */
    programs: z.record(z.string().regex(/^[A-Z_]{1,60}$/), program).optional(),
  }),
])
const toolSettings = z.strictObject({
  title: z.string().min(1).max(40),
  /** As npm spells them; `proprietary`: it may be used, and not be given to anybody else. */
  license: z.string().min(1).max(40),
  /** Of a tool also the sandbox's own Node. */
  programs: z.record(program, z.union([ownProgram, z.strictObject({ runtime: z.literal(true) })])),
  /** Files that are put there besides, line by line. */
  added: z.record(file, z.array(z.string().max(200)).max(40)).default({}),
  /** Packages that npm would add and nothing here needs: they are not in the lock. */
  leftOut: z.array(pattern),
  /** Files and folders that are removed again. */
  pruned: z.array(pattern),
})
const harnessSettings = toolSettings.extend({
  programs: z.record(program, ownProgram),
  /** How it speaks to a model. */
  wire: z.enum(['anthropic-messages', 'openai-responses', 'openai-chat-completions', 'gemini']),
  /** The account of `craik accounts` that is its own login. */
  login: z.string().min(1).max(40),
})
const packageJson = z.object({
  version: z.string().regex(/^[0-9][0-9A-Za-z.]{0,40}$/),
  dependencies: z.record(z.string(), z.string()).default({}),
  optionalDependencies: z.record(z.string(), z.string()).default({}),
})
const lockFile = z.object({ packages: z.record(z.string(), z.unknown()) })

type PackageSettings = z.infer<typeof toolSettings>
type HarnessSettings = z.infer<typeof harnessSettings>
export type HarnessProgram = PackageSettings['programs'][string]

/** One of them as its recipe says, for a kind of processor. */
export interface PackageSource {
  readonly name: PackageName
  readonly version: string
  /** Its name, its version and the beginning of its key: another recipe has another. */
  readonly id: string
  readonly key: string
  readonly architecture: Architecture
  readonly settings: PackageSettings
  /** Of npm, by name, with the versions that are pinned. */
  readonly packages: Readonly<Record<string, string>>
  /** How many npm may have to fetch. */
  readonly locked: number
  /** What npm is given. */
  readonly files: Pick<HarnessParts, 'package.json' | 'package-lock.json'>
  /** Programs of our own, by name. */
  readonly own: Readonly<Record<string, Buffer>>
}

/** One that is an agent's. */
export interface HarnessSource extends PackageSource {
  readonly name: PackagedHarnessName
  readonly settings: HarnessSettings
}

/** The three files of a recipe, and the programs beside it. */
export interface HarnessParts {
  readonly 'package.json': Buffer
  readonly 'package-lock.json': Buffer
  readonly 'harness.json': Buffer
  readonly own: Readonly<Record<string, Buffer>>
}

export function readHarness(name: PackagedHarnessName, architecture: string = process.arch): HarnessSource {
  const parts = readParts(name)
  const settings = harnessSettings.parse(parse(parts['harness.json']))
  return { ...sourceFrom(name, parts, architecture), name, settings }
}

export function readPackage(name: PackageName, architecture: string = process.arch): PackageSource {
  return sourceFrom(name, readParts(name), architecture)
}

export function readParts(name: PackageName): HarnessParts {
  const settings = readPart(name, 'harness.json')
  const { programs } = toolSettings.loose().parse(parse(settings))
  const own = Object.values(programs).flatMap((each) =>
    'node' in each && ownFile.safeParse(each.node).success ? [each.node] : [],
  )
  return {
    'package.json': readPart(name, 'package.json'),
    'package-lock.json': readPart(name, 'package-lock.json'),
    'harness.json': settings,
    own: Object.fromEntries(own.map((file) => [file, readPart(name, file)])),
  }
}

export function sourceFrom(name: PackageName, parts: HarnessParts, architecture: string): PackageSource {
  const { version, dependencies, optionalDependencies } = packageJson.parse(parse(parts['package.json']))
  const schema = TOOL_NAMES.some((tool) => tool === name) ? toolSettings : harnessSettings
  const parsed = schema.parse(parse(parts['harness.json']))
  const known = requireArchitecture(name, parsed, architecture)
  const { own, ...recipe } = parts
  const files = Object.fromEntries(
    Object.entries({ ...recipe, ...own }).map(([part, content]) => [part, sha256(content)]),
  )
  const key = sha256(canonicalJson({ form: FORM, kind: 'harness', name, architecture: known, files }))
  const { 'harness.json': _, ...forNpm } = recipe
  return {
    name,
    version,
    key,
    architecture: known,
    settings: parsed,
    id: `${name}-${version}-${key.slice(0, 12)}`,
    packages: { ...dependencies, ...optionalDependencies },
    locked: Object.keys(lockFile.parse(parse(parts['package-lock.json'])).packages).length - 1,
    files: forNpm,
    own,
  }
}

/** `all`, or names with commas between; each once, in the order of the layers. */
export function parseHarnesses(typed: string): readonly PackageName[] {
  return checkHarnesses(
    typed === 'all' ? PACKAGED_HARNESS_NAMES : typed.split(',').map((name) => name.trim()),
  )
}

export function checkHarnesses(names: readonly string[]): readonly PackageName[] {
  const wrong = names.find((name) => !PACKAGE_NAMES.some((known) => known === name))
  if (wrong !== undefined)
    throw new CraikError('usage', `unknown harness: ${JSON.stringify(wrong.slice(0, 60))}`, {
      hint: `use one of: all, ${[...PACKAGED_HARNESS_NAMES].sort().join(', ')} or npm`,
    })
  return PACKAGE_NAMES.filter((name) => names.includes(name))
}

function requireArchitecture(name: string, { programs }: PackageSettings, wanted: string): Architecture {
  const known = ARCHITECTURES.find((one) => one === wanted)
  const runs = known && Object.values(programs).every((one) => !('native' in one) || one.native[known])
  if (known !== undefined && runs) return known
  throw new CraikError('unavailable', `Craik has no tested ${name} for ${wanted}`, {
    hint: 'list the harnesses:  craik harness list',
  })
}

function readPart(name: PackageName, part: string): Buffer {
  try {
    return readFileSync(packageFile(`image/harnesses/${name}/${part}`))
  } catch (cause) {
    throw new CraikError('unavailable', `the file image/harnesses/${name}/${part} is missing`, {
      hint: 'reinstall craik',
      cause,
    })
  }
}

function parse(content: Buffer): unknown {
  return JSON.parse(content.toString())
}

function sha256(content: Buffer | string): string {
  return createHash('sha256').update(content).digest('hex')
}
