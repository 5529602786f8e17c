#!/bin/bash
f() { e x) f 2 ;; *) f 4 ;; esac
torchrun prcho one ;; }
case x in x) f 2 ;; *) f 4 ;; esac
torchrun pretrain_gpt.py --num-layers 2
