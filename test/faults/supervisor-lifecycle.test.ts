/**
 * The supervisor is killed while it creates or deletes a sandbox. Afterwards the sandbox exists completely or not at
 * all.
 */
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { SandboxBody } from '../../src/operator/api/bodies.ts'
import { canBe, EVERY_IDENTITY, SandboxHome } from '../sandbox-home.ts'
import { createRandom, SEED, SupervisorKiller } from './supervisor-kill.ts'
import { receiptsOf, requireWholeLog } from './supervisor-kill-receipts.ts'

const ROUNDS = process.env.CRAIK_SOAK === '1' ? 50 : 5
const LIMIT_MS = 1_200_000
/** Longer than creating or deleting takes on an idle host. */
const SPAN_MS = 1_000

describe.each(EVERY_IDENTITY)('as %s', (identity) => {
  it.runIf(canBe(identity))(
    `a supervisor killed while it creates a sandbox (seed ${SEED}) leaves a complete one or none`,
    { timeout: LIMIT_MS },
    async () => {
      const random = createRandom(SEED)
      await using home = await SandboxHome.open({ identity })
      const killer = new SupervisorKiller(home.home)
      for (let round = 0; round < ROUNDS; round++) {
        expect(await list(home)).toEqual([])
        const creating = home.run(['sandbox', 'create', '--format', 'json'])
        await killer.current()
        await sleep(random() * SPAN_MS)
        await killer.kill()
        const { code, stdout, stderr } = await creating
        const found = await list(home)
        if (code === 0) expect(found.map(({ id }) => id)).toContain((JSON.parse(stdout) as SandboxBody).id)
        else expect(stderr).toMatch(/^craik: /)
        for (const { id } of found) await requireUsable(home, id)
        for (const { id } of found)
          expect(await home.run(['sandbox', 'delete', id])).toMatchObject({ code: 0 })
        await requireNothingLeft(home)
      }
      expect(killer.killed).toHaveLength(ROUNDS)
      await killer.waitUntilOneLeft()
      expect(idsIn(await requireWholeLog(home))).not.toEqual([])
    },
  )

  it.runIf(canBe(identity))(
    `a supervisor killed while it deletes a sandbox (seed ${SEED}) leaves a complete one or none`,
    { timeout: LIMIT_MS },
    async () => {
      const random = createRandom(SEED)
      await using home = await SandboxHome.open({ identity })
      const killer = new SupervisorKiller(home.home)
      for (let round = 0; round < ROUNDS; round++) {
        const { id } = await home.create()
        const deleting = home.run(['sandbox', 'delete', id])
        await sleep(random() * SPAN_MS)
        await killer.kill()
        const { code } = await deleting
        const found = await list(home)
        if (code === 0) expect(found).toEqual([])
        for (const { id } of found) await requireUsable(home, id)
        for (const { id } of found)
          expect(await home.run(['sandbox', 'delete', id])).toMatchObject({ code: 0 })
        await requireNothingLeft(home)
      }
      expect(killer.killed).toHaveLength(ROUNDS)
      await killer.waitUntilOneLeft()
      expect(idsIn(await requireWholeLog(home))).not.toEqual([])
    },
  )
})

/** Recovery runs first: the list contains what the next supervisor recovered. */
function list(home: SandboxHome): Promise<readonly SandboxBody[]> {
  return home.json(['sandbox', 'list', '--format', 'json'])
}

async function requireUsable(home: SandboxHome, id: string): Promise<void> {
  const shown = await home.json<SandboxBody>(['sandbox', 'show', id, '--format', 'json'])
  expect(shown).toMatchObject({ state: 'running' })
  expect(await home.run(['sandbox', 'exec', id, '--', 'echo', 'whole'])).toMatchObject({
    code: 0,
    stdout: 'whole\n',
  })
}

/**
 * Checks every sandbox that ever existed, because the receipts name them all. A supervisor may be killed before it
 * received a request for one.
 */
async function requireNothingLeft(home: SandboxHome): Promise<void> {
  const ids = idsIn(await receiptsOf(home))
  const folder = join(home.home, 'sandboxes')
  expect(existsSync(folder) ? readdirSync(folder) : []).toEqual([])
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8')
  const loops = globSync('/sys/block/loop*/loop/backing_file').map(readIfThere).join('\n')
  const processes = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => readIfThere(`/proc/${pid}/environ`) + readIfThere(`/proc/${pid}/mountinfo`))
    .join('\n')
  for (const id of ids) {
    expect(globSync(`/sys/fs/cgroup/{,*/}craik/${id}`)).toEqual([])
    for (const [where, text] of Object.entries({ mounts, loops, processes }))
      expect(text.includes(id), `${id} in ${where}`).toBe(false)
  }
}

function idsIn(receipts: Awaited<ReturnType<typeof receiptsOf>>): readonly string[] {
  return [...new Set(receipts.flatMap(({ links }) => links.sandbox_id ?? []))]
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
