import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { MountSpec } from '../backend.ts'
import { isFor, isSame, type Shape, shapeOf } from './instance-shape.ts'
import { type CreatedSandbox, planWarmInstances, RECENT_MS } from './warm-demand.ts'

const NOW_MS = 1_700_000_000_000

const shape = (memoryBytes: number): Shape => ({
  backend: 'docker',
  isolation: 'container',
  limits: { memoryBytes, processes: 100 },
  hostUser: undefined,
  late: null,
  container: {},
})

const history = fc
  .array(fc.record({ size: fc.constantFrom(1, 2, 3), agoMs: fc.nat(2 * RECENT_MS) }), { maxLength: 40 })
  .map((all) =>
    all
      .toSorted((a, b) => b.agoMs - a.agoMs)
      .map(({ size, agoMs }): CreatedSandbox => ({ shape: shape(size), atMs: NOW_MS - agoMs })),
  )

describe('the number of warm instances', () => {
  it('is zero before the first sandbox, and zero ten minutes after the last one', () => {
    expect(planWarmInstances([], NOW_MS, 4)).toEqual([])
    const first = [{ shape: shape(1), atMs: NOW_MS }]
    expect(planWarmInstances(first, NOW_MS, 4)).toEqual([shape(1)])
    expect(planWarmInstances(first, NOW_MS + RECENT_MS - 1, 4)).toEqual([shape(1)])
    expect(planWarmInstances(first, NOW_MS + RECENT_MS, 4)).toEqual([])
  })

  it('equals the number of recent sandboxes up to the maximum, with the shapes of the newest', () => {
    fc.assert(
      fc.property(history, fc.nat(8), (made, most) => {
        const wanted = planWarmInstances(made, NOW_MS, most)
        const lately = made.filter(({ atMs }) => NOW_MS - atMs < RECENT_MS)
        expect(wanted).toHaveLength(Math.min(most, lately.length))
        expect(wanted).toEqual(
          lately
            .map((one) => one.shape)
            .toReversed()
            .slice(0, most),
        )
      }),
    )
  })
})

describe('the shape of a warm instance', () => {
  const request = {
    backend: 'docker',
    isolation: 'container',
    workspace: { mode: 'copy' },
    mounts: [],
    volumes: [],
    limits: { memoryBytes: 1, processes: 100 },
    hostUser: 'allocate',
    container: undefined,
  } as const

  it('has Craik’s own image, no volumes and no host folder, but can support hot mounts', () => {
    expect(shapeOf(request)).toMatchObject({ limits: request.limits, late: null, container: {} })
    expect(shapeOf({ ...request, container: { image: 'debian' } })).toBeUndefined()
    expect(shapeOf({ ...request, volumes: [{ name: 'tools', at: '.local' }] })).toBeUndefined()
    const mounts = [{ folder: '/srv', at: '/mnt/srv' }]
    const owner = { uid: 1000, gid: 1000 }
    const inPlace = { ...request, workspace: { mode: 'in-place', folder: '/srv' }, hostUser: owner } as const
    expect(shapeOf({ ...request, mounts })!.late).toEqual({ workspace: false, mounts: true })
    expect(shapeOf(inPlace)).toMatchObject({ hostUser: owner, late: { workspace: true, mounts: false } })
    expect(shapeOf({ ...inPlace, mounts })!.late).toEqual({ workspace: true, mounts: true })
    expect(JSON.stringify([shapeOf(inPlace), shapeOf({ ...request, mounts })])).not.toContain('/srv')
  })

  it('is for one owner of a workspace, and for the kinds of folders that it can mount', () => {
    const wantedShape = (uid: number, mode: 'copy' | 'in-place', mounts: readonly MountSpec[] = []) =>
      shapeOf({ ...request, workspace: { mode, folder: '/srv' }, mounts, hostUser: { uid, gid: uid } })!
    const one = wantedShape(1000, 'in-place')
    expect(isFor(wantedShape(1000, 'in-place'), one, null)).toBe(true)
    expect(isFor(wantedShape(1001, 'in-place'), one, null)).toBe(false)
    expect(isFor(wantedShape(1000, 'copy'), one, null)).toBe(false)
    expect(isFor(wantedShape(1000, 'in-place', [{ folder: '/opt', at: '/mnt/opt' }]), one, null)).toBe(false)
  })

  it('fits requests with the same fields, or with the fields that Craik chose for missing ones, and no others', () => {
    const runc = {
      image: 'i',
      imageName: 'n',
      runtime: 'runc',
      line: 'socket',
      state: 'folder',
      engine: 'e',
    } as const
    const plain = shapeOf(request)!
    const requestedShape = (container: Shape['container']): Shape => ({ ...plain, container })
    expect(isFor(plain, plain, runc)).toBe(true)
    expect(isFor(requestedShape({ runtime: 'runc', line: 'socket' }), plain, runc)).toBe(true)
    expect(isFor(requestedShape({ runtime: 'runsc' }), plain, runc)).toBe(false)
    expect(isFor(requestedShape({ line: 'relay' }), plain, runc)).toBe(false)
    const relayed = requestedShape({ line: 'relay' })
    expect(isFor(plain, relayed, { ...runc, line: 'relay' })).toBe(false)
    expect(isFor({ ...plain, limits: { ...plain.limits, processes: 99 } }, plain, runc)).toBe(false)
    expect(isFor({ ...plain, hostUser: undefined }, plain, runc)).toBe(false)
    expect(isSame(plain, structuredClone(plain))).toBe(true)
  })
})
