/**
 * Compares the programs that supervisors execute on the host, as strace records them, with the table in
 * `src/lib/host-programs.ts`.
 *
 * - `CRAIK_TEST_TRACE=FOLDER npx vitest run` traces every supervisor that the tests start.
 * - `node test/program-trace.ts FOLDER` compares. It exits with 1 when a program is not in the table.
 */
import { chmodSync, mkdirSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { findRootProgram, HOST_PROGRAMS, hostPath, type ProgramName } from '../src/lib/host-programs.ts'

export const STRACE = '/usr/bin/strace'

/**
 * The tracer is not the parent and has its own session, so that the supervisor keeps its pid and its exit code. A
 * seccomp filter stops processes only at these calls.
 */
export function straceArguments(output: string): readonly string[] {
  return [
    '-DDD',
    '-f',
    '-qq',
    '--seccomp-bpf',
    '--pidns-translation',
    '-s',
    '300',
    '-o',
    output,
    '-e',
    'trace=execve,execveat,fork,vfork,clone,clone3,pivot_root',
    '-e',
    'signal=none',
  ]
}

/** Changes a built Craik so that its supervisors execute themselves again under strace, with the same pid. */
export function traceSupervisors(mainFile: string, folder: string): void {
  mkdirSync(folder, { recursive: true })
  chmodSync(folder, 0o1777)
  const shim = `const { readFileSync } = require('node:fs')
const isSupervisor = process.argv[2] === 'supervisor' && process.argv[3] === 'run'
if (isSupervisor && /^TracerPid:\\s*0$/m.test(readFileSync('/proc/self/status', 'utf8'))) {
  const output = ${JSON.stringify(folder)} + '/' + Date.now() + '-' + process.pid
  const args = ${JSON.stringify(straceArguments('OUTPUT'))}.map((one) => (one === 'OUTPUT' ? output : one))
  const own = [process.execPath, ...process.execArgv, ...process.argv.slice(1)]
  process.execve('${STRACE}', ['strace', ...args, ...own], process.env)
}
`
  writeFileSync(join(dirname(mainFile), 'trace.cjs'), shim)
  // Runs before all code of Craik.
  writeFileSync(mainFile, `require('./trace.cjs')\n${readFileSync(mainFile, 'utf8')}`)
}

interface Execution {
  readonly pid: string
  readonly path: string
  readonly argv: string
}

export interface TraceResult {
  /** The number of executions on the host for each program of the table. */
  readonly known: Readonly<Partial<Record<ProgramName, number>>>
  /** The paths of the user's programs that were executed. */
  readonly users: readonly string[]
  /** Programs that are not in the table. */
  readonly foreign: readonly Execution[]
  /** The number of programs that were executed in sandboxes, or by programs of the table that start others. */
  readonly beyond: number
}

export function checkTrace(text: string): TraceResult {
  const { parents, roots, executions } = readTrace(text)
  const boundaries = new Set(roots)
  const known: Partial<Record<ProgramName, number>> = {}
  const foreign: Execution[] = []
  const users = new Set<string>()
  let beyond = 0
  const isBeyond = (pid: string | undefined): boolean => {
    for (let at = pid, steps = 0; at !== undefined && steps < 1000; at = parents.get(at), steps++)
      if (boundaries.has(at)) return true
    return false
  }
  for (const execution of executions) {
    const { pid, path, argv } = execution
    if (isBeyond(pid)) {
      beyond++
      continue
    }
    const name = nameOf(path, argv)
    if (name === undefined) {
      foreign.push(execution)
      continue
    }
    known[name] = (known[name] ?? 0) + 1
    if (HOST_PROGRAMS[name].kind === 'user') users.add(path)
    const isSidecar = name === 'node' && argv.includes('/sidecar.mjs"')
    // Without isolation, a sandbox runs on the host, and its user chose the programs that it starts.
    if ('startsOthers' in HOST_PROGRAMS[name] || isSidecar) boundaries.add(pid)
  }
  return { known, foreign, users: [...users], beyond }
}

/** Copies of Node: that of the sandbox runtime, and the one that tests make for other users. */
const OTHER_NODES = /\/runtime\/[^/]+\/node$|\/craik-tests-[^/]+\/node$/

function nameOf(path: string, argv: string): ProgramName | undefined {
  if (path === process.execPath || OTHER_NODES.test(path)) return 'node'
  const names = Object.keys(HOST_PROGRAMS) as ProgramName[]
  const real = realOf(path)
  return names.find((name) => {
    const { kind } = HOST_PROGRAMS[name]
    if (kind === 'system') return findRootProgram(name, hostPath()) === real
    // Craik runs these programs by name, from any folder.
    return kind === 'user' && argv.startsWith(`["${name}"`)
  })
}

function realOf(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}

interface Trace {
  readonly parents: ReadonlyMap<string, string>
  /** Processes that changed their root. They and their children run in a sandbox. */
  readonly roots: readonly string[]
  readonly executions: readonly Execution[]
}

const LINE = /^(\d+) +(.*)$/
const UNFINISHED = ' <unfinished ...>'
const RESUMED = /^<\.\.\. \w+ resumed>(.*)$/

/** strace writes a call that another one interrupts on two lines. */
function readTrace(text: string): Trace {
  const parents = new Map<string, string>()
  const roots: string[] = []
  const executions: Execution[] = []
  const waiting = new Map<string, string>()
  for (const line of text.split('\n')) {
    const [, pid, output] = LINE.exec(line) ?? []
    if (pid === undefined || output === undefined) continue
    if (output.endsWith(UNFINISHED)) {
      waiting.set(pid, output.slice(0, -UNFINISHED.length))
      continue
    }
    const rest = RESUMED.exec(output)?.[1]
    const call = rest === undefined ? output : (waiting.get(pid) ?? '') + rest
    if (rest !== undefined) waiting.delete(pid)
    const [, path, argv] = /^execve\("((?:[^"\\]|\\.)*)", (\[.*?\](?:\.\.\.)?), .*\) += 0$/.exec(call) ?? []
    if (path !== undefined) executions.push({ pid, path, argv: argv! })
    else if (/^execveat\(.*\) += 0$/.test(call)) executions.push({ pid, path: call, argv: '[]' })
    else if (/^pivot_root\(.*\) += 0$/.test(call)) roots.push(pid)
    else {
      const child =
        /^(?:fork|vfork|clone|clone3)\(.*\) += (\d+)(?: \/\* (\d+) in strace's PID NS \*\/)?$/.exec(call)
      if (child) parents.set(child[2] ?? child[1]!, pid)
    }
  }
  return { parents, roots, executions }
}

/** Combines the traces of many supervisors. */
function classifyFolder(folder: string): { readonly traceResult: TraceResult; readonly traces: number } {
  const files = readdirSync(folder)
  const all = files.map((file) => checkTrace(readFileSync(join(folder, file), 'utf8')))
  const known: Partial<Record<ProgramName, number>> = {}
  for (const one of all)
    for (const [name, count] of Object.entries(one.known) as [ProgramName, number][])
      known[name] = (known[name] ?? 0) + count
  const foreign = all.flatMap((one) => one.foreign)
  const users = [...new Set(all.flatMap((one) => one.users))]
  return {
    traceResult: { known, foreign, users, beyond: all.reduce((sum, one) => sum + one.beyond, 0) },
    traces: files.length,
  }
}

if (basename(process.argv[1] ?? '') === 'program-trace.ts') {
  const say = (line: string) => process.stdout.write(`${line}\n`)
  const { traceResult: judgement, traces } = classifyFolder(process.argv[2]!)
  const { known, foreign, users, beyond } = judgement
  say(`${traces} supervisors traced; ${beyond} programs executed in sandboxes or by programs of the table`)
  for (const [name, count] of Object.entries(known).sort()) say(`  ${name}  ${count}`)
  for (const path of users.toSorted()) say(`  the user’s: ${path}`)
  const unknown = new Map<string, number>()
  for (const { path, argv } of foreign) {
    const key = `${path} ${argv}`
    unknown.set(key, (unknown.get(key) ?? 0) + 1)
  }
  for (const [key, count] of unknown) say(`NOT IN THE TABLE  ${count} × ${key}`)
  if (traces === 0 || foreign.length > 0) process.exitCode = 1
}
