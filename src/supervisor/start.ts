/** Starts a supervisor that outlives whoever started it. */
import { spawn } from 'node:child_process'
import { closeSync } from 'node:fs'
import type { SupervisorPlace } from './ensure.ts'
import { openLogFile } from './log.ts'
import type { RunFolder } from './run-folder.ts'

export interface Starting {
  /** Undefined while it runs; 0 also when it was killed, which says nothing of what the next one will do. */
  exitCode(): number | undefined
}

/** All that it needs of its starter's environment, and nothing that could hold a secret. */
const KEPT = [
  ...['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR'],
  // Whom to trust besides the system's own authorities, such as that of a store in this network.
  ...['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR'],
  // Where programs keep their logins.
  ...['CLAUDE_CONFIG_DIR', 'CODEX_HOME', 'GEMINI_CLI_HOME', 'KIMI_CODE_HOME', 'GH_CONFIG_DIR'],
  ...['XDG_CONFIG_HOME', 'XDG_DATA_HOME'],
  // Where the container engine is.
  ...['CRAIK_ENGINE', 'DOCKER_HOST', 'DOCKER_TLS_VERIFY', 'DOCKER_CERT_PATH', 'XDG_RUNTIME_DIR'],
]

export function startSupervisor(place: SupervisorPlace, folder: RunFolder): Starting {
  const env: Record<string, string> = { CRAIK_HOME: place.home.root }
  for (const name of KEPT) {
    const value = place.environment[name]
    if (value !== undefined) env[name] = value
  }
  const log = openLogFile(folder.log)
  let exitCode: number | undefined
  try {
    const child = spawn(process.execPath, [place.mainFile, 'supervisor', 'run', ...(place.runFlags ?? [])], {
      cwd: '/',
      env,
      detached: true,
      stdio: ['ignore', log, log],
    })
    child.once('error', () => {
      exitCode = 127
    })
    child.once('exit', (code) => {
      exitCode = code ?? 0
    })
    child.unref()
  } finally {
    closeSync(log)
  }
  return { exitCode: () => exitCode }
}
