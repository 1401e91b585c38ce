/**
 * The process that refreshes one login and exits. It is detached from Craik: a supervisor that is killed while an
 * issuer responds must not lose the only copy of a rotated token.
 */
import { homeAt } from '../../store/home.ts'
import { parseOverrides } from '../overrides.ts'
import { isProbeProblem } from '../probe-result.ts'
import { PROGRAM_PROBES } from '../probes/program-probes.ts'
import { type RefreshRequest, refreshRequest } from './refresh-request.ts'
import { type RefreshOutcome, refreshLogin } from './transaction.ts'

// The requesting process may have exited and closed its pipe.
process.stdout.on('error', () => {})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGPIPE'] as const) process.on(signal, () => {})

void start()

async function start(): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer)
  const task = refreshRequest.parse(JSON.parse(Buffer.concat(chunks).toString()))
  process.stdout.write(JSON.stringify(await outcome(task)))
}

async function outcome(task: RefreshRequest): Promise<RefreshOutcome> {
  const { accountId } = task
  const until = AbortSignal.timeout(task.deadlineMs)
  const hostEnvironment = {
    userHome: task.userHome,
    environment: process.env,
    mounted: async () => task.mounted,
    platform: task.platform as NodeJS.Platform,
    overrides: parseOverrides(task.overrides),
    nowMs: () => Date.now(),
  }
  const probe = PROGRAM_PROBES.find(({ name }) => name === accountId)
  if (probe === undefined) return { outcome: 'failed', reason: 'it is not a login that is refreshed' }
  const findings = await probe.probe(hostEnvironment, until)
  const found = findings.find((finding) => !isProbeProblem(finding) && finding.account.id === accountId)
  if (found === undefined || isProbeProblem(found) || found.login.kind !== 'oauth')
    return { outcome: 'absent' }
  return refreshLogin(
    {
      home: homeAt(task.craikHome),
      accountId,
      login: found.login,
      hostEnvironment: hostEnvironment,
      unwanted: task.unwanted,
      authorities: task.authorities,
    },
    until,
  )
}
