"""Common nouns and points of operations, software and daily life, Chinese and English side by side.

One group a line: its key first, then what means the same. ``_`` joins the words of a phrase.
Plurals of English words are added by rule where they are not written out.
"""

__all__ = ["NOUNS", "POINTS"]

NOUNS = """
i me myself 我 本人
container 容器
service svc microservice 服务 微服务 服務
server 服务器 伺服器 服務器
host 主机 主機
machine 机器 機器
vm virtual_machine 虚拟机 虛擬機
node 节点 節點
cluster 集群 叢集
database db data_base 数据库 資料庫 數據庫
table 数据表 表
column 列 字段 field
index 索引
view 视图
schema 表结构
row 数据行
record 记录
queue 队列 消息队列 message_queue
topic 主题 话题
cache 缓存 快取
proxy 代理 代理服务器
reverseproxy reverse_proxy 反向代理
gateway 网关 閘道
loadbalancer load_balancer lb 负载均衡 负载均衡器
firewall 防火墙 防火牆
router 路由器
switch 交换机
network 网络 網路 網絡
subnet 子网
domain domain_name 域名
certificate cert 证书 憑證
website web_site site 网站 網站
page web_page 页面 网页
homepage home_page 首页 主页
frontend front_end 前端
backend back_end 后端 後端
api interface 接口
endpoint 端点
app application 应用 应用程序 應用
program 程序
software 软件 軟體
system 系统 系統
platform 平台
module 模块 模組
component 组件
plugin 插件 外掛
library 库
package 软件包 依赖包
dependency 依赖
framework 框架
script 脚本
job 作业
cronjob cron_job scheduled_task 定时任务 计划任务
task 任务 任務
process 进程
thread 线程
worker 工作进程
pipeline 流水线
workflow 工作流
build 构建
image 镜像 docker_image
volume 数据卷 卷
disk hard_disk hard_drive 磁盘 硬盘 磁碟
memory ram 内存 記憶體
cpu processor 处理器
gpu graphics_card 显卡
file 文件 档案 檔案
folder directory dir 目录 文件夹 目錄
config configuration config_file 配置 配置文件 設定
setting 设置
log log_file 日志 日誌
backup 备份 備份
snapshot 快照
repository repo 仓库 代码库 代码仓库
branch 分支
commit 提交
release 发布
deployment 部署
environment env 环境 環境
production prod 生产 生产环境 线上 线上环境
staging 预发 预发环境
testing test_environment 测试环境
code source_code 代码 源码 源代码
function 函数
class 类
method 方法
variable 变量
test 测试
bug defect 缺陷
error 错误 報錯 报错
alert alarm 告警 警报
incident outage 事故 故障
ticket 工单
issue 议题
requirement 需求
feature 功能
project 项目 專案
product 产品 產品
document doc documentation 文档
manual handbook 手册
report 报告 报表
plan 计划 計劃
meeting 会议 會議
model 模型
agent 智能体
dataset data_set 数据集
data 数据 資料 數據
account 账号 账户 帳號
user 用户 用戶
role 角色
permission 权限
team 团队 團隊
group 小组
department 部门
company firm 公司
customer client 客户 客戶
supplier vendor 供应商
colleague coworker 同事
boss 老板 上司
manager 经理
office 办公室
order 订单 訂單
payment 支付 付款
invoice 发票
contract 合同
warehouse 库房
datawarehouse data_warehouse 数据仓库
store shop 商店 店铺
computer pc 电脑 電腦 计算机
laptop notebook_computer 笔记本 笔记本电脑
phone mobile_phone cell_phone cellphone 手机 手機
tablet 平板 平板电脑
screen display 显示器 屏幕
monitoring 监控 監控
keyboard 键盘
mouse 鼠标
printer 打印机
camera 相机 摄像头
headphone earphone 耳机
watch 手表
car 汽车 车 车子
bike bicycle 自行车 单车
train 火车
flight 航班
house 房子
home 家
apartment flat 公寓
room 房间
kitchen 厨房
garden 花园
door 门
window 窗户
dog puppy 狗 小狗 狗狗
cat kitten 猫 小猫 猫咪
pet 宠物
mother mom mum 妈妈 母亲 妈
father dad 爸爸 父亲 爸
parent 父母
wife 妻子 老婆 太太
husband 丈夫 老公
son 儿子
daughter 女儿
child kid 孩子 小孩
brother 兄弟
sister 姐妹
friend 朋友
girlfriend 女朋友 女友
boyfriend 男朋友 男友
doctor 医生
hospital 医院
school 学校 學校
teacher 老师
student 学生
course lesson 课程 课
book 书 書
movie film 电影
song 歌 歌曲
game 游戏
restaurant 餐厅 饭店 餐馆
hotel 酒店 宾馆
trip journey 旅行 旅程
flightticket flight_ticket plane_ticket 机票
city 城市
gym 健身房
kubernetes k8s
postgresql postgres
javascript js
typescript ts
"""
"""Things and persons: what `jiyi.text.entity_key` brings to one word."""

POINTS = """
port port_number listening_port listen_port 端口 端口号 监听端口 埠
version version_number 版本 版本号
timeout time_out time_limit 超时 超时时间 时限 逾時
interval 间隔 时间间隔
frequency 频率
threshold 阈值
limit upper_limit 上限 限额 限制 天花板
expires expiry expiration runs_out 过期 过期时间 到期 到期时间
quota 配额
rent 房租 租金
replicas replica replica_count 副本 副本数
concurrency 并发 并发数
retries retry retry_count 重试 重试次数
size 大小
capacity 容量
amount quantity 数量
count 次数 个数
speed 速度
latency 延迟
bandwidth 带宽
address 地址
ip ip_address ip地址
url 链接 网址
path 路径
status state 状态
type kind 类型
name 名字 姓名 名称
nickname 昵称 外号
alias 别名
language 语言
region 地区 区域
location place 地点 位置
owner maintainer 负责人 责任人 person_in_charge
author 作者
password passphrase 密码
key api_key 密钥
email e_mail mail email_address 邮箱 邮件 电子邮件 邮箱地址
phonenumber phone_number 电话 电话号码 手机号 手机号码
birthday birth_date date_of_birth dob 生日 出生日期
age 年龄 年纪 岁数
gender sex 性别
nationality 国籍
hometown 老家 家乡 籍贯
residence lives_in live_in living_in residing_in 住址 住在 住处 居住地 现居
occupation job job_title profession 职业 工作 职位 岗位
employer works_at work_at works_for work_for 工作单位 任职 就职
salary wage 工资 薪水 月薪 薪资
hobby interest 爱好 兴趣
likes like loves love enjoys enjoy 喜欢 喜爱 爱
dislikes dislike hates hate 不喜欢 讨厌
prefers prefer preference preferred 偏好 偏爱 更喜欢
allergy allergic allergic_to 过敏 过敏源
diet 饮食
weight 体重 重量
height 身高 高度
bloodtype blood_type 血型
budget 预算 預算
price unit_price 价格 单价 售价
cost fee expense 费用 成本
deadline due_date 截止日期 截止时间 期限
date 日期
time 时间
starttime start_time 开始时间
endtime end_time 结束时间
schedule 日程 时间表
duration 时长
goal target 目标
reason cause 原因
priority 优先级
color colour 颜色
brand 品牌
retention retention_period 保留期 保留时间 保留天数
strategy policy 策略
provider 提供商
encoding 编码
license 许可证
plate license_plate plate_number 车牌 车牌号
homework 作业 家庭作业
decision 决定
rule 规则
answerlanguage answer_language reply_language response_language 回答语言 回复语言
answerlength answer_length reply_length response_length 回答长度 回复长度
formofaddress form_of_address 称呼
unit 单位
convention 约定
"""
"""What is said of them: what `jiyi.text.predicate_key` knows beside the nouns."""
