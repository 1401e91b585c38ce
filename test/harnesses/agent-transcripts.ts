/** The export of the agents' own transcripts: each conversation once, and each of its turns once. */
import { readFileSync } from 'node:fs'
import { expect } from 'vitest'
import type { LoginScene } from '../gateway/login-scene.ts'
import type { AgentName } from './prompt-scene.ts'

interface Run {
  readonly harness: string
  readonly sandbox_id: string
  readonly agent_session: string | null
  readonly status: string
}
interface Exported {
  readonly harness: string
  readonly id: string
  readonly path: string
  readonly outcome: string
}

/** Checks the export of all prompts in a sandbox. Returns the exported text. */
export async function areExportedOnce(
  scene: LoginScene,
  names: readonly AgentName[],
  sandbox: string,
): Promise<string> {
  const runs = await scene.home.json<readonly Run[]>(['run', 'list', '--prompts', '--format', 'json'])
  const requests = runs.filter((run) => run.sandbox_id === sandbox && run.agent_session !== null)
  const sessions = Map.groupBy(requests, ({ harness, agent_session }) => `${harness} ${agent_session}`)
  const inbox = ['--inbox', scene.home.path('inbox'), '--format', 'json']
  const exportTranscripts = () =>
    scene.home.json<readonly Exported[]>(['transcripts', 'export', '--sandbox', sandbox, ...inbox])
  const rows = await exportTranscripts()
  expect(rows.map(({ harness, id }) => `${harness} ${id}`).sort()).toEqual([...sessions.keys()].sort())
  expect(new Set(rows.map(({ path }) => path)).size).toBe(rows.length)
  expect(await exportTranscripts()).toEqual([])

  const texts = new Map(rows.map(({ harness, id, path }) => [`${harness} ${id}`, readFileSync(path, 'utf8')]))
  for (const [session, text] of texts) {
    const all = sessions.get(session)!
    const answered = all.filter(({ status }) => status !== 'failed')
    const { user, assistant } = turnsOf(text)
    expect(user, text).toBe(all.length)
    // An agent whose run failed may still record the error. Claude Code does this if it is not stopped before.
    expect(assistant, text).toBeGreaterThanOrEqual(answered.length)
    expect(assistant, text).toBeLessThanOrEqual(all.length)
  }
  for (const name of names) {
    // This session was resumed once, and other sessions started after it.
    const [resumed, ...others] = [...texts].filter(([, text]) =>
      text.includes(`echo more >> proof-${name}.txt`),
    )
    expect(others).toEqual([])
    expect(resumed![0].startsWith(`${name} `)).toBe(true)
    expect(turnsOf(resumed![1]), resumed![1]).toEqual({ user: 2, assistant: 2 })
    expect(
      resumed![1].match(/^<details>\n<summary>[^\n]*echo [^\n]*<\/summary>$/gm),
      resumed![1],
    ).toHaveLength(2)
  }
  return [...texts.values()].join('\n')
}

function turnsOf(text: string): Readonly<Record<'user' | 'assistant', number>> {
  const count = (role: string) => text.match(new RegExp(`^## ${role}$`, 'gm'))?.length ?? 0
  return { user: count('user'), assistant: count('assistant') }
}
