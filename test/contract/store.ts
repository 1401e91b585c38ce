/** The contract of every store. Craik ships a store only when it passes. */
import { beforeEach, describe, expect, it } from 'vitest'
import type { EnvelopeId, GrantId, ReceiptId } from '../../src/lib/ids.ts'
import type { GrantRow, ReceiptRow, Tables } from '../../src/store/store.ts'

/** Runs `work` in one transaction. It commits when `work` resolves, and rolls back when it rejects. */
export interface StoreUnderTest {
  transaction<T>(work: (tables: Tables) => Promise<T>): Promise<T>
}

export function storeContract(name: string, open: () => Promise<StoreUnderTest>): void {
  describe(`${name} as a store`, () => {
    let store: StoreUnderTest
    beforeEach(async () => {
      store = await open()
    })
    const inside = <T>(work: (tables: Tables) => Promise<T>) => store.transaction(work)

    describe('receipts', () => {
      it('has no head while it is empty, then the newest receipt with the current key', async () => {
        expect(await inside(({ receipts }) => receipts.last())).toBeUndefined()
        await inside(async ({ receipts, logKeys }) => {
          await logKeys.add({ kid: 'k1', origin: 'o', vkey: 'v1', fromSeq: 0 })
          await logKeys.add({ kid: 'k2', origin: 'o', vkey: 'v2', fromSeq: 7 })
          await receipts.insert(receipt(0))
          await receipts.insert(receipt(1))
        })
        expect(await inside(({ receipts }) => receipts.last())).toMatchObject({
          seq: 1,
          atMs: 1001,
          kid: 'k2',
        })
        expect(await inside(({ logKeys }) => logKeys.current())).toMatchObject({ kid: 'k2' })
      })

      it('returns a line byte for byte', async () => {
        const row = receipt(0, { line: '{"body":{"x":"é\u2028😀"}}', leaf: Buffer.alloc(32, 7) })
        await inside(({ receipts }) => receipts.insert(row))
        const found = await inside(({ receipts }) => receipts.get(row.id))
        expect(found?.line).toBe(row.line)
        expect(Buffer.from(found!.leaf)).toEqual(row.leaf)
      })

      it('refuses a reused id', async () => {
        await inside(({ receipts }) => receipts.insert(receipt(0)))
        const second = receipt(1, { id: receipt(0).id })
        await expect(inside(({ receipts }) => receipts.insert(second))).rejects.toThrow()
        expect(await inside(({ receipts }) => receipts.scan(0, 10))).toHaveLength(1)
      })

      it('reports that a sequence number is taken, and keeps the first receipt', async () => {
        const second = receipt(0, { id: 'rcpt_other' as ReceiptId })
        expect(await inside(({ receipts }) => receipts.insert(receipt(0)))).toBe(true)
        expect(await inside(({ receipts }) => receipts.insert(second))).toBe(false)
        expect(await inside(({ receipts }) => receipts.scan(0, 10))).toMatchObject([{ id: 'rcpt_0' }])
      })

      it('accepts only one end for a begin', async () => {
        await inside(({ receipts }) => receipts.insert(receipt(0)))
        await inside(({ receipts }) => receipts.insert(receipt(1, { phase: 'end', beginId: receipt(0).id })))
        const again = receipt(2, { phase: 'end', beginId: receipt(0).id })
        await expect(inside(({ receipts }) => receipts.insert(again))).rejects.toThrow()
        expect(await inside(({ receipts }) => receipts.endOf(receipt(0).id))).toMatchObject({ seq: 1 })
      })

      it('scans in order, and finds by any filter, newest first, page by page', async () => {
        await inside(async ({ receipts }) => {
          for (let seq = 0; seq < 10; seq++) {
            await receipts.insert(
              receipt(seq, {
                sessionId: seq % 2 ? 'odd' : 'even',
                kind: seq < 5 ? 'denial' : 'grant',
                runId: 'r',
              }),
            )
          }
        })
        const seqs = (rows: readonly ReceiptRow[]) => rows.map(({ seq }) => seq)
        const find = (...args: Parameters<Tables['receipts']['find']>) =>
          inside(async ({ receipts }) => seqs(await receipts.find(...args)))
        expect(seqs(await inside(({ receipts }) => receipts.scan(3, 4)))).toEqual([3, 4, 5, 6])
        expect(await find({ sessionId: 'odd' }, 10)).toEqual([9, 7, 5, 3, 1])
        expect(await find({ sessionId: 'odd' }, 2, 7)).toEqual([5, 3])
        expect(await find({ kind: 'denial', sessionId: 'even' }, 10)).toEqual([4, 2, 0])
        expect(await find({ sinceMs: 1003, untilMs: 1005 }, 10)).toEqual([4, 3])
        expect(await find({ runId: 'other' }, 10)).toEqual([])
      })

      it('finds by links both indexed receipts and those since the newest checkpoint', async () => {
        await inside(async ({ receipts, tree }) => {
          for (let seq = 0; seq < 4; seq++)
            await receipts.insert(receipt(seq, { taskId: 't', handoffId: 'h' }))
          await receipts.indexLinks(0, 2)
          await tree.putCheckpoint({ size: 3, root: Buffer.alloc(32), note: 'n', atMs: 1 })
        })
        const found = await inside(({ receipts }) => receipts.find({ taskId: 't', handoffId: 'h' }, 10))
        expect(found.map(({ seq }) => seq)).toEqual([3, 1, 0])
        expect(await inside(({ receipts }) => receipts.firstUnindexed(2))).toBeUndefined()
        expect(await inside(({ receipts }) => receipts.firstUnindexed(3))).toBe(2)
      })

      it('rolls back everything when the work fails', async () => {
        const failing = inside(async ({ receipts, openReceipts }) => {
          await receipts.insert(receipt(0))
          await openReceipts.add({ id: receipt(0).id, owner: OWNER })
          throw new Error('no')
        })
        await expect(failing).rejects.toThrow('no')
        expect(await inside(({ receipts }) => receipts.last())).toBeUndefined()
        expect(await inside(({ openReceipts }) => openReceipts.list())).toEqual([])
      })
    })

    it('stores open receipts, and removes one only once', async () => {
      await inside(({ openReceipts }) => openReceipts.add({ id: 'rcpt_a' as ReceiptId, owner: OWNER }))
      expect(await inside(({ openReceipts }) => openReceipts.list())).toEqual([
        { id: 'rcpt_a', owner: OWNER },
      ])
      expect(await inside(({ openReceipts }) => openReceipts.remove('rcpt_a'))).toBe(true)
      expect(await inside(({ openReceipts }) => openReceipts.remove('rcpt_a'))).toBe(false)
    })

    it('stores leaf hashes, tree nodes and checkpoints', async () => {
      await inside(async ({ receipts, tree }) => {
        for (let seq = 0; seq < 5; seq++) await receipts.insert(receipt(seq, { leaf: Buffer.alloc(32, seq) }))
        await tree.putNode(8, 0, Buffer.alloc(32, 9))
        for (const size of [2, 4])
          await tree.putCheckpoint({ size, root: Buffer.alloc(32), note: `n${size}`, atMs: 1 })
      })
      const leaves = await inside(({ tree }) => tree.leaves(1, 3))
      expect(leaves.map((leaf) => leaf[0])).toEqual([1, 2])
      expect(Buffer.from((await inside(({ tree }) => tree.node(8, 0)))!)).toEqual(Buffer.alloc(32, 9))
      expect(await inside(({ tree }) => tree.node(8, 1))).toBeUndefined()
      expect(await inside(({ tree }) => tree.lastCheckpoint())).toMatchObject({ size: 4, note: 'n4' })
      expect(await inside(({ tree }) => tree.checkpoint(2))).toMatchObject({ note: 'n2' })
      expect((await inside(({ tree }) => tree.checkpoints(2, 9))).map(({ size }) => size)).toEqual([4])
    })

    it('stores a document once, under its digest', async () => {
      const document = { digest: 'sha256:a', mediaType: 'text/cedar', text: 'permit' }
      await inside(({ documents }) => documents.put(document))
      await inside(({ documents }) => documents.put(document))
      expect(await inside(({ documents }) => documents.list())).toEqual([document])
      expect(await inside(({ documents }) => documents.get('sha256:b'))).toBeUndefined()
    })

    it('never overwrites an envelope', async () => {
      const row = { id: 'policy_a' as EnvelopeId, document: '{}', createdAtMs: 1 }
      await inside(({ envelopes }) => envelopes.insert(row))
      await expect(inside(({ envelopes }) => envelopes.insert({ ...row, document: '[]' }))).rejects.toThrow()
      expect(await inside(({ envelopes }) => envelopes.get('policy_a'))).toEqual(row)
    })

    describe('grants', () => {
      it('can be used as often as they allow, and not more', async () => {
        await inside(({ grants }) => grants.insert(grant({ usesLeft: 2 })))
        const use = () => inside(({ grants }) => grants.consume('grant_a'))
        expect([await use(), await use(), await use()]).toEqual([true, true, false])
        expect(await inside(({ grants }) => grants.get('grant_a'))).toMatchObject({ usesLeft: 0 })
      })

      it('without a limit of uses can always be used', async () => {
        await inside(({ grants }) => grants.insert(grant({ usesLeft: null })))
        for (let i = 0; i < 3; i++) expect(await inside(({ grants }) => grants.consume('grant_a'))).toBe(true)
        expect(await inside(({ grants }) => grants.consume('grant_b'))).toBe(false)
      })

      it('can be revoked once', async () => {
        await inside(({ grants }) => grants.insert(grant({})))
        expect(await inside(({ grants }) => grants.revoke('grant_a', 5))).toBe(true)
        expect(await inside(({ grants }) => grants.revoke('grant_a', 6))).toBe(false)
        expect(await inside(({ grants }) => grants.list(10))).toMatchObject([{ revokedAtMs: 5 }])
      })

      it('are found for a capability and subject while they are usable, newest first', async () => {
        const rows = [
          grant({ id: 'grant_old' as GrantId, expiresAtMs: 11 }),
          grant({ id: 'grant_new' as GrantId, usesLeft: null, createdAtMs: 2 }),
          grant({ id: 'grant_used' as GrantId, usesLeft: 0 }),
          grant({ id: 'grant_revoked' as GrantId, revokedAtMs: 3 }),
          grant({ id: 'grant_expired' as GrantId, expiresAtMs: 10 }),
          grant({ id: 'grant_other' as GrantId, subject: 'local-user:b' }),
          grant({ id: 'grant_else' as GrantId, capability: 'shell.execute' }),
        ]
        for (const row of rows) await inside(({ grants }) => grants.insert(row))
        const found = await inside(({ grants }) => grants.usable('model.chat', 'local-user:a', 10))
        expect(found.map(({ id }) => id)).toEqual(['grant_new', 'grant_old'])
      })
    })

    it('replaces and removes secrets by name', async () => {
      const row = { name: 'A', source: 'env', reference: 'X', sealed: null, updatedAtMs: 1 }
      const sealed = { name: 'A', source: 'stored', reference: null, sealed: Buffer.of(1, 2), updatedAtMs: 2 }
      await inside(({ secrets }) => secrets.put(row))
      await inside(({ secrets }) => secrets.put(sealed))
      const found = await inside(({ secrets }) => secrets.list())
      expect(found).toHaveLength(1)
      expect(Buffer.from(found[0]!.sealed!)).toEqual(Buffer.of(1, 2))
      expect(await inside(({ secrets }) => secrets.remove('A'))).toBe(true)
      expect(await inside(({ secrets }) => secrets.get('A'))).toBeUndefined()
    })

    it('stores a command reference once, word for word', async () => {
      const row = { ref: 'test', argv: ['npm', 'test', '', 'a "b" \\'], createdAtMs: 1 }
      await inside(({ commands }) => commands.insert(row))
      await expect(inside(({ commands }) => commands.insert(row))).rejects.toThrow()
      expect(await inside(({ commands }) => commands.get('test'))).toEqual(row)
      expect(await inside(({ commands }) => commands.remove('test'))).toBe(true)
      expect(await inside(({ commands }) => commands.list())).toEqual([])
    })
  })
}

const OWNER = { bootId: 'b', pid: 1, startedAt: '2', pidNamespace: 'n' }

function receipt(seq: number, fields: Partial<ReceiptRow> = {}): ReceiptRow {
  return {
    seq,
    id: `rcpt_${seq}` as ReceiptId,
    kind: 'grant',
    phase: 'point',
    status: 'passed',
    sessionId: null,
    taskId: null,
    runId: null,
    handoffId: null,
    policyEnvelopeId: null,
    beginId: null,
    atMs: 1000 + seq,
    leaf: Buffer.alloc(32),
    line: '{}',
    ...fields,
  }
}

function grant(fields: Partial<GrantRow>): GrantRow {
  return {
    id: 'grant_a' as GrantId,
    capability: 'model.chat',
    subject: 'local-user:a',
    document: '{}',
    usesLeft: 1,
    expiresAtMs: null,
    revokedAtMs: null,
    createdAtMs: 1,
    ...fields,
  }
}
