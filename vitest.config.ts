import { globSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { matchesGlob, relative } from 'node:path'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { findMissingProgram } from './test/needed-programs.ts'

type Kind = 'unit' | 'isolated' | 'system' | 'docker' | 'alone'
type Tier = 'main' | 'matrix'

/**
 * Which test file runs how, and in which tier: the first row that matches counts. `npm test` runs the tier `main`, what
 * people use, once, on the combination most likely to break. `npm run test:matrix` runs the tier `matrix`: the same
 * suites for the other users, transports, engines and agents, files that do one thing very often, and endings that take
 * long: kills, full disks, deadlines. A file of both tiers asks test/tier.ts for its combinations.
 *
 * `unit` starts no process, `system` real processes, `docker` real containers. `isolated` counts what its own process has
 * open, so that no other file may run in that process. `alone` kills supervisors and engines against deadlines: two files
 * at a time, after all others.
 */
const TABLE: readonly (readonly [kind: Kind, tiers: readonly Tier[], files: string])[] = [
  [
    'isolated',
    ['main'],
    'src/{lib/child.process,sandboxes/boundary/file-calls,sandboxes/manager/managed-jobs.process}.test.ts',
  ],
  ['isolated', ['main'], 'src/sidecar/jobs/{follow.process,job-log}.test.ts'],
  // They die at many points, or try very many inputs.
  ['system', ['matrix'], 'src/sandboxes/manager/{lifecycle-model,snapshots-crash}.process.test.ts'],
  ['system', ['matrix'], 'src/receipts/{redaction/redact.cost,verifier/diagnosis}.test.ts'],
  ['system', ['matrix'], 'src/run/agents/{audit-edits,lifecycle.properties}.process.test.ts'],
  ['system', ['matrix'], 'src/{lib/safe-tar/any-tree.process,sandboxes/backends/process/workspace}.test.ts'],
  ['system', ['main'], '{src,scripts}/**/*.process.test.ts'],
  // They start no process, but compute or wait for seconds.
  ['system', ['main'], 'src/receipts/redaction/redact.properties.test.ts'],
  ['system', ['main'], 'src/receipts/{plain-draft,tree,verifier/*}.test.ts'],
  [
    'system',
    ['main'],
    'src/{accounts/broker,accounts/probes/probes,policy/replay,sdk/transfer-attempts}.test.ts',
  ],
  ['system', ['main'], 'src/gateway/models/{body-scanner,faults,models,refusal-flood,socket/*}.test.ts'],
  ['system', ['main'], 'src/providers/adapters/{adapters,dialects}.test.ts'],
  ['system', ['main'], 'src/sandboxes/{boundary/*,lifecycle/*-procedures,manager/job-ends}.test.ts'],
  ['system', ['main'], 'src/{run/changes/fetch,secrets/secrets}.test.ts'],
  ['system', ['main'], 'src/transcripts/{export,readers}/*.test.ts'],
  ['unit', ['main'], '{src,scripts}/**/*.test.ts'],

  ['alone', ['matrix'], 'test/faults/{supervisor,docker}-*.test.ts'],

  // `npm test` runs the contract and the attempts to escape in process sandboxes, and prompts too.
  ['docker', ['matrix'], 'test/docker/{contract,escape}-*.test.ts'],
  ['docker', ['matrix'], 'test/docker/{docker-instance,gateway,mounts,prompts}.test.ts'],
  ['docker', ['matrix'], 'test/docker/{load,podman}.test.ts'],
  // `npm test` runs the same attacks in process sandboxes, and the login's sandbox too.
  ['docker', ['matrix'], 'test/docker/{copy-out,credential-oracle,host-programs,hostile-bodies}.test.ts'],
  ['docker', ['matrix'], 'test/docker/{login-sandbox,supervisor-programs}.test.ts'],
  // They make images of Debian's packages, or of each agent, and container disks of each kind.
  ['docker', ['matrix'], 'test/docker/{docker-instance-disk,harnesses,image,packages,pool-folders}.test.ts'],
  // They kill at many points, for each transport, or need a second engine.
  ['docker', ['matrix'], 'test/docker/{docker-instance-ends,volumes}.test.ts'],
  ['docker', ['matrix'], 'test/docker/pool.test.ts'],
  ['docker', ['main', 'matrix'], 'test/docker/snapshots.test.ts'],
  ['docker', ['main'], 'test/docker/**/*.test.ts'],

  // Behaviours of the original once more, one command line each.
  ['system', ['matrix'], 'test/conformance/{agent-runs,operator-shell}.test.ts'],
  ['system', ['matrix'], 'test/contract/sandbox-root.test.ts'],
  ['system', ['matrix'], 'test/escape/process-root.test.ts'],
  ['system', ['main', 'matrix'], 'test/e2e/{sandbox-lifecycle,snapshots,two-terminals}.test.ts'],
  ['system', ['main', 'matrix'], 'test/gateway/models.test.ts'],
  ['system', ['main', 'matrix'], 'test/login-sandbox/verbs.test.ts'],
  ['system', ['main', 'matrix'], 'test/transcripts/autosave.test.ts'],
  // They trace every program, kill at many points, type every example, or install everything anew.
  ['system', ['matrix'], 'test/attacks/supervisor-programs.test.ts'],
  ['system', ['matrix'], 'test/e2e/{examples,first-use,forgery,process-instance}.test.ts'],
  ['system', ['matrix'], 'test/e2e/sandbox-manager.test.ts'],
  ['system', ['matrix'], 'test/gateway/{budget,packages,rotation,surplus}.test.ts'],
  ['system', ['matrix'], 'test/login-sandbox/{copies,hazards,verify}.test.ts'],
  // They run all five agents, or one for each ending.
  [
    'system',
    ['matrix'],
    'test/e2e/{codex-terminal,harnesses,recorded-agents,project-programs,slow-agents}.test.ts',
  ],
  ['system', ['matrix'], 'test/faults/{agent-kill,budget,checkpoint,concurrency,damage,kill}.test.ts'],
  ['system', ['main'], 'test/**/*.test.ts'],
]

/** Tests of real processes also wait: four files at once also where there are two cores. */
const maxWorkers = Math.max(4, availableParallelism() - 1)
const globalSetup = ['./test/run-folder.ts']
const withCraik = [...globalSetup, './test/built-craik.ts']
const setupFiles = ['./test/fixed-seed.ts', './test/remove-folders.ts']
/** One module graph for all files of a worker: they share no state, and loading it took a second of each file. */
const ofProcesses = {
  isolate: false,
  globalSetup: withCraik,
  setupFiles,
  maxWorkers,
  testTimeout: 180_000,
  hookTimeout: 180_000,
}

const KINDS = {
  unit: {
    isolate: false,
    globalSetup,
    setupFiles: [...setupFiles, './test/start-no-process.ts'],
    maxWorkers,
    testTimeout: 20_000,
  },
  isolated: { ...ofProcesses, isolate: true },
  system: ofProcesses,
  docker: {
    ...ofProcesses,
    globalSetup: [...withCraik, './test/engine-setup.ts'],
    setupFiles: [...setupFiles, './test/engine-ready.ts'],
  },
  alone: { ...ofProcesses, maxWorkers: 2, sequence: { groupOrder: 1 } },
}

/** Files that take minutes although most of them are a few lines that call a suite. */
const LONGEST = [
  'test/docker/{prompts,login-sandbox}.test.ts',
  'test/docker/{contract,escape}-*.test.ts',
  'test/{contract/sandbox-root,escape/process-root,gateway/packages}.test.ts',
  'test/faults/docker-kill.test.ts',
]

/**
 * Vitest starts large files first. The longest come before them, so that none of them runs at the end by itself. The other tests of
 * containers come last: their image is built while the rest runs.
 */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId, project }: TestSpecification) => {
      const file = relative(import.meta.dirname, moduleId)
      const at = LONGEST.findIndex((pattern) => matchesGlob(file, pattern))
      if (at !== -1) return at
      return project.name === 'docker' ? LONGEST.length + 1 : LONGEST.length
    }
    const group = ({ project }: TestSpecification) => project.config.sequence.groupOrder
    const sorted = await super.sort(files)
    return sorted.toSorted((a, b) => group(a) - group(b) || rank(a) - rank(b))
  }
}

const FILES = globSync('{src,scripts,test}/**/*.test.ts', { cwd: import.meta.dirname })

/** The files of one project; a pattern that matches none keeps vitest from looking for its own. */
function filesOf(kind: Kind, tier: Tier): string[] {
  const files = FILES.filter((file) => {
    const row = TABLE.find(([, , pattern]) => matchesGlob(file, pattern))
    return row?.[0] === kind && row[1].includes(tier) && !isSkipped(file)
  })
  return files.length > 0 ? files : ['none']
}

/** Without a program that it needs a file is skipped by name; with CI=true scripts/prepare-machine.ts fails instead. */
function isSkipped(file: string): boolean {
  const program = findMissingProgram(file)
  if (program !== undefined)
    process.stderr.write(`skipped: ${file} needs ${program}, which is not installed\n`)
  return program !== undefined
}

function project(kind: Kind, tier: Tier) {
  const name = tier === 'main' ? kind : `${tier}-${kind}`
  return { test: { name, ...KINDS[kind], env: { CRAIK_TEST_TIER: tier }, include: filesOf(kind, tier) } }
}

export default defineConfig({
  test: {
    pool: 'forks',
    sequence: { sequencer: LongestFirst },
    reporters: process.env.CI
      ? ['default', './test/slowest-files.ts', './test/no-silent-skips.ts']
      : ['default'],
    projects: [
      ...(['unit', 'isolated', 'system', 'docker'] as const).map((kind) => project(kind, 'main')),
      ...(['system', 'docker', 'alone'] as const).map((kind) => project(kind, 'matrix')),
    ],
  },
})
