/**
 * The agent CLIs that Craik can install, and npm, which it installs in the same way. `image/harnesses/` pins exact
 * versions. Each package's id contains a digest of its content.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { canonicalJson } from '../../lib/canonical-json.ts'
import { packageFile } from '../../lib/package-files.ts'
import { TOOL_NAMES } from '../../sandboxes/harness-package.ts'

/** In the order of an image's layers. Packages that rarely change are in the lower layers. */
export const PACKAGED_HARNESS_NAMES = ['opencode', 'kimi', 'gemini', 'codex', 'claude-code'] as const
export type PackagedHarnessName = (typeof PACKAGED_HARNESS_NAMES)[number]

/** Tools are not agents. They are in the lowest layers, because they change least often. */
export const PACKAGE_NAMES = [...TOOL_NAMES, ...PACKAGED_HARNESS_NAMES] as const
export type PackageName = (typeof PACKAGE_NAMES)[number]

export const ARCHITECTURES = ['x64', 'arm64'] as const
export type Architecture = (typeof ARCHITECTURES)[number]

/** Change this when the same inputs must produce a different package. */
const PACKAGE_FORMAT = 1

const file = z
  .string()
  .regex(/^node_modules(?:\/[A-Za-z0-9@._+-]+)+$/)
  .refine(
    (path) => !path.split('/').some((part) => part === '..' || part === '.'),
    'must not contain . or ..',
  )
/** A file next to the recipe, which Craik copies into the package's folder unchanged. */
const ownFile = z.string().regex(/^[a-z][a-z0-9-]{0,40}\.mjs$/)
const program = z.string().regex(/^[a-z][a-z0-9-]{0,40}$/)
const pattern = z.string().regex(/^[A-Za-z0-9@._+*/-]{1,200}$/)

/** A program in `bin`: a native program for the processor, or a file that Node runs. */
const ownProgram = z.union([
  z.strictObject({ native: z.partialRecord(z.enum(ARCHITECTURES), file) }),
  z.strictObject({
    node: z.union([file, ownFile]),
    /** Variables that contain the paths of other programs in `bin`. */
    programs: z.record(z.string().regex(/^[A-Z_]{1,60}$/), program).optional(),
  }),
])
const toolSettings = z.strictObject({
  title: z.string().min(1).max(40),
  /** The license as npm writes it. `proprietary` means that it can be used but not redistributed. */
  license: z.string().min(1).max(40),
  /** A tool can also provide the sandbox's own Node. */
  programs: z.record(program, z.union([ownProgram, z.strictObject({ runtime: z.literal(true) })])),
  /** Additional files, each as a list of lines. */
  added: z.record(file, z.array(z.string().max(200)).max(40)).default({}),
  /** Packages that npm would add and nothing needs. They are not in the lock file. */
  leftOut: z.array(pattern),
  /** Files and folders that Craik removes after the installation. */
  pruned: z.array(pattern),
})
const harnessSettings = toolSettings.extend({
  programs: z.record(program, ownProgram),
  /** The request format of its model calls. */
  wire: z.enum(['anthropic-messages', 'openai-responses', 'openai-chat-completions', 'gemini']),
  /** The account in `craik accounts` with the harness's own login. */
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

/** A package as its recipe describes it, for one kind of processor. */
export interface PackageSource {
  readonly name: PackageName
  readonly version: string
  /** Its name, its version and the beginning of its key, so that each recipe has a different id. */
  readonly id: string
  readonly key: string
  readonly architecture: Architecture
  readonly settings: PackageSettings
  /** The npm packages by name, with the pinned versions. */
  readonly packages: Readonly<Record<string, string>>
  /** The most packages that npm may have to fetch. */
  readonly locked: number
  /** The files that npm receives. */
  readonly files: Pick<HarnessParts, 'package.json' | 'package-lock.json'>
  /** Craik's own programs, by name. */
  readonly own: Readonly<Record<string, Buffer>>
}

/** The package of an agent. */
export interface HarnessSource extends PackageSource {
  readonly name: PackagedHarnessName
  readonly settings: HarnessSettings
}

/** The three files of a recipe, and the programs next to it. */
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
  const key = sha256(
    canonicalJson({ form: PACKAGE_FORMAT, kind: 'harness', name, architecture: known, files }),
  )
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

/** Parses `all` or a comma-separated list of names. Returns each name once, in the order of the layers. */
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
